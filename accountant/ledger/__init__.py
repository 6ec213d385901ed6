"""One dataset: the budget it has spent, and the decision on a request."""

from __future__ import annotations

from accountant.ledger.ledger import Ledger

__all__ = ["Ledger"]
