"""Who an input of any kind names, and what for: read alone, for logs hold invalid inputs, too."""

from __future__ import annotations

from typing import Final

import msgspec

from accountant.claims import Claim
from accountant.records.records import DECODE_ERRORS


class RequestNames(msgspec.Struct, gc=False):
    """The names in an input; "" where it has none."""

    analyst: str = ""
    by: str = ""
    via: str = ""


class RequestDetails(RequestNames, gc=False):
    """The names in a request that was granted or refused, its id and its purpose."""

    request_id: str = ""
    purpose: str = ""


class _WithClaim(msgspec.Struct):
    claim: Claim


decode_request_details = msgspec.json.Decoder(RequestDetails).decode
_decode_names = msgspec.json.Decoder(RequestNames).decode
_decode_asked = msgspec.json.Decoder(_WithClaim).decode
_NOBODY: Final = RequestNames()


def names_in_request(request: msgspec.Raw | bytes) -> RequestNames:
    """Return the names in an input of any kind; none where it is no request."""
    try:
        return _decode_names(request)
    except DECODE_ERRORS:  # it has other things than texts in these fields
        return _NOBODY


def claim_in(request: msgspec.Raw | bytes) -> Claim:
    """Return the claim of a request that was granted.

    Raises: DECODE_ERRORS: it has none.
    """
    return _decode_asked(request).claim
