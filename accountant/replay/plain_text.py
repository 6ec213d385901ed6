"""Values of records as plain text, for people who read an audit."""

from __future__ import annotations

import msgspec


def plain(value: object) -> str:
    """Return a value of a record: text as it is, nothing as such, all else as the log writes it."""
    if value is None or value is msgspec.UNSET:
        return "nothing"
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return msgspec.json.encode(value).decode()
