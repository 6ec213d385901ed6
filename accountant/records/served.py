"""A decision as doors answer it: the log's record, and what a short program reads off first.

`granted` is true for the outcome `granted` alone. A repeat is not granted once more: its
`first.granted` says what was decided at first. `hash` is the hash of the log's record, by which
a later decision names it, or a repeat its first.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from accountant.records.records import encode

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_OUTCOME: Final = "outcome"
_ADDED: Final = ("granted", "hash")
_GRANTED: Final = b'"granted"'
_TRUE, _FALSE = msgspec.Raw(b"true"), msgspec.Raw(b"false")


def served(value: bytes) -> bytes:
    """Return a decision's bytes with `granted` and `hash` beside `outcome`, and `first.granted`.

    Args:
        value: the decision exactly as the log holds it.
    """
    digest = encode(f"sha256:{hashlib.sha256(value).hexdigest()}")
    shown: dict[str, msgspec.Raw] = {}
    for name, raw in _members(value).items():
        shown[name] = _first(raw) if name == "first" else raw
        if name == _OUTCOME:
            shown["granted"] = _granted(raw)
            shown["hash"] = msgspec.Raw(digest)
    return encode(shown)


def as_logged(value: bytes) -> tuple[bytes, bool]:
    """Return a served decision exactly as the log holds it, and whether its hash says so, too.

    What an older version served, which is the log's record itself, comes back as it is.

    Raises: DECODE_ERRORS: it is no JSON object.
    """
    members = _members(value)
    if "hash" not in members:
        return value, True
    told = msgspec.json.decode(members["hash"])
    logged = {name: raw for name, raw in members.items() if name not in _ADDED}
    if "first" in logged:
        first = _members(logged["first"])
        first.pop("granted", None)
        logged["first"] = msgspec.Raw(encode(first))
    record = encode(logged)
    return record, told == f"sha256:{hashlib.sha256(record).hexdigest()}"


def _first(raw: msgspec.Raw) -> msgspec.Raw:
    shown: dict[str, msgspec.Raw] = {}
    for name, each in _members(raw).items():
        shown[name] = each
        if name == _OUTCOME:
            shown["granted"] = _granted(each)
    return msgspec.Raw(encode(shown))


def _granted(outcome: msgspec.Raw) -> msgspec.Raw:
    return _TRUE if bytes(outcome) == _GRANTED else _FALSE
