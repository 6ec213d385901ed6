"""The body of an opening as a server that authenticates its callers completes it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from accountant.records.records import encode

_OPENING: Final = "open"


def with_members_only(body: bytes) -> bytes:
    """Return an opening's body with `access: members`, unless it says who may ask.

    The same bytes come out each time, so that a repeat is one. Every other body stays as it is.

    Args:
        body: JSON that was checked.
    """
    fields: dict[str, Any] = msgspec.json.decode(body)
    policy = fields.get("policy")
    if fields.get("type") != _OPENING or not isinstance(policy, dict) or "access" in policy:
        return body
    return encode({**fields, "policy": {**policy, "access": "members"}})
