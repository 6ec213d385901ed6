"""The fields that a record repeats from its input, and its error about the input."""

from __future__ import annotations

import json
from typing import Any

from tests.faults.oracle.wire import Read


def names_one(error: Any, body: Read) -> bool:
    """Return whether an `error` has its three texts, and names an invalid field."""
    if not isinstance(error, dict) or error.keys() != {"field", "rule", "value"}:
        return False
    root = str(error["field"]).partition(".")[0].partition("[")[0]
    return body.reason != "invalid_field" or root in body.broken


def request_of(value: bytes, field: str = "request") -> bytes | None:
    """Return the input that a record repeats, byte for byte."""
    text = value.decode()
    start = text.find(f'"{field}":')
    if start < 0:
        return None
    start += len(f'"{field}":')
    _, end = json.JSONDecoder().raw_decode(text, start)
    return text[start:end].encode()


def input_of(value: bytes) -> bytes | None:
    """Return the input that a record decides: an owner's answer, or the request itself."""
    return request_of(value, "approval" if "approval" in json.loads(value) else "request")
