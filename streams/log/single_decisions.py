"""Single decisions of a log, by their numbers."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from accountant.errors import LogDamaged
from accountant.partition import hash_of
from accountant.records.header import decode_header
from streams.errors import Gone
from streams.log.decision_log import MAX_PAGE_BYTES, DecisionLog


def number_of(value: bytes) -> int:
    """Return the number in a decision.

    Raises: LogDamaged: it has none.
    """
    try:
        return decode_header(value).partition_sequence
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise LogDamaged(f"a record among the decisions cannot be read: {error}") from error


def decisions_at(log: DecisionLog, partition: int, numbers: Iterable[int]) -> list[bytes]:
    """Return single decisions, in the order of `numbers`.

    The result ends early once it has more than `MAX_PAGE_BYTES`.

    Raises:
        LogDamaged: the log lacks a decision of that number, or has another in its place.
        Gone, Unavailable, Refused: as `DecisionLog.read`.
    """
    found, size = list[bytes](), 0
    for number in numbers:
        if size >= MAX_PAGE_BYTES:
            break
        values = log.read(partition, number, 1)
        if not values:
            raise LogDamaged(f"partition {partition} has no decision {number}")
        if number_of(values[0]) != number:
            raise LogDamaged(f"partition {partition} has another decision at {number}")
        found += values
        size += len(values[0])
    return found


def has_decision(log: DecisionLog, partition: int, number: int, head: str) -> bool:
    """Tell whether a log has, outside its archives, the decision with a number and a hash.

    Raises: as `DecisionLog.read`.
    """
    try:
        values = log.read(partition, number, 1)
    except Gone:
        return False
    return bool(values) and hash_of(values[0]) == head
