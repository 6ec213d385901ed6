"""What readers take from the input of a decision: names, claim.

Each is read alone, for logs hold invalid inputs, too.
"""

from __future__ import annotations

from typing import Final

import msgspec

from accountant.claims import Claim
from accountant.records.header import DecisionHeader
from accountant.records.records import DECODE_ERRORS, Decision
from accountant.records.requests import AskMore, Remark


class RequestNames(msgspec.Struct, gc=False):
    """The names in an input; "" where it has none.

    Attributes:
        grant: the reservation that a step is about: a step is no request of its own.
        asker: the person whose ask an owner declines.
    """

    analyst: str = ""
    by: str = ""
    via: str = ""
    grant: str = ""
    asker: str = ""


class RequestDetails(RequestNames, gc=False):
    """The names in a request that was granted or refused, its id and its purpose."""

    request_id: str = ""
    purpose: str = ""


class _WithClaim(msgspec.Struct):
    claim: Claim


decode_request_details = msgspec.json.Decoder(RequestDetails).decode
decode_ask = msgspec.json.Decoder(AskMore).decode
"""Reads the input of a decision `more_asked`."""
decode_remark = msgspec.json.Decoder(Remark).decode
"""Reads the input of a decision `remarked`."""
_decode_names = msgspec.json.Decoder(RequestNames).decode
_decode_asked = msgspec.json.Decoder(_WithClaim).decode
_NOBODY: Final = RequestNames()


def names_in_request(request: msgspec.Raw | bytes) -> RequestNames:
    """Return the names in an input of any kind; none where it is no request."""
    try:
        return _decode_names(request)
    except DECODE_ERRORS:  # it has other things than texts in these fields
        return _NOBODY


def claim_of(decision: Decision | DecisionHeader) -> Claim | None:
    """Return the claim that a decision is about: its request's, or that derived from its question.

    None where there is none: of an invalid input, or of a question from which none was derived.
    """
    if decision.derived is not None:
        return decision.derived.claim
    try:
        return _decode_asked(decision.request).claim
    except DECODE_ERRORS:  # its fields may hold anything
        return None
