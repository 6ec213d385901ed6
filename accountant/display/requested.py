"""The claim of a decision's request, as text."""

from __future__ import annotations

from typing import Final

import msgspec

from accountant.claims import Claim
from accountant.claims.text import claim_text
from accountant.records import DECODE_ERRORS, Decision


class _Request(msgspec.Struct):
    claim: Claim


_decode_request: Final = msgspec.json.Decoder(_Request).decode


def requested_claim(decision: Decision) -> Claim | None:
    """Return the claim of a decision's request, None if the input has no valid one."""
    try:
        return _decode_request(decision.request).claim
    except DECODE_ERRORS:  # an invalid input: its fields may hold anything
        return None


def requested_words(decision: Decision) -> str:
    """Return the claim of a decision's request as text, "" if the input has no valid one."""
    claim = requested_claim(decision)
    return "" if claim is None else claim_text(claim)
