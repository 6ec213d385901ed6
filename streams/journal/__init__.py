"""Where decisions are kept: the port and its adapters."""

from __future__ import annotations

from streams.journal.port import Commit, DeadLetter, Journal

__all__ = ["Commit", "DeadLetter", "Journal"]
