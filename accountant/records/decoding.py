"""Decode records of a log, naming the one that cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from accountant.errors import LogDamaged
from accountant.records.records import DECODE_ERRORS

T = TypeVar("T")


def decode_from_log(number: int, value: bytes, decode: Callable[[bytes], T]) -> T:
    """Return a decision from its bytes.

    Args:
        number: of the decision, for the message.
    Raises: LogDamaged: it cannot be read.
    """
    try:
        return decode(value)
    except DECODE_ERRORS as error:
        raise LogDamaged(f"decision {number} cannot be read: {error}") from error
