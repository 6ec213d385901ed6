"""The claim of a decision's request as text, and what would fit instead."""

from __future__ import annotations

from typing import Final

from accountant.advice.preview import Preview
from accountant.claims import AllOf, Claim, Interactive
from accountant.claims.text import claim_text
from accountant.records import Decision
from accountant.records.request_names import claim_of

_NOTHING: Final = "nothing of this kind"
_NOT_COMPUTED: Final = "not computed for several claims together: ask for less, such as half"


def requested_words(decision: Decision) -> str:
    """Return the claim that a decision is about as text, "" if it has none."""
    claim = claim_of(decision)
    return "" if claim is None else claim_text(claim)


def fitting_words(refused: Decision | Preview, claim: Claim | None = None) -> str:
    """Return the largest claim that would fit, or why there is none.

    Args:
        claim: of a preview; a decision has its own.
    """
    if refused.fits is not None:
        return refused.fits
    claim = claim_of(refused) if isinstance(refused, Decision) else claim
    while isinstance(claim, Interactive):
        claim = claim.claim
    return _NOT_COMPUTED if isinstance(claim, AllOf) else _NOTHING
