"""The claim of a decision's request, as text."""

from __future__ import annotations

from accountant.claims.text import claim_text
from accountant.records import Decision
from accountant.records.request_names import claim_of


def requested_words(decision: Decision) -> str:
    """Return the claim that a decision is about as text, "" if it has none."""
    claim = claim_of(decision)
    return "" if claim is None else claim_text(claim)
