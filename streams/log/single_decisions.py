"""The number in a decision of a log."""

from __future__ import annotations

import msgspec

from accountant.errors import LogDamaged
from accountant.records.header import decode_header


def number_of(value: bytes) -> int:
    """Return the number in a decision.

    Raises: LogDamaged: it has none.
    """
    try:
        return decode_header(value).partition_sequence
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise LogDamaged(f"a record among the decisions cannot be read: {error}") from error
