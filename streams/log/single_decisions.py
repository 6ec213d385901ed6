"""Single decisions of a log, by their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from accountant.errors import LogDamaged
from accountant.partition import hash_of
from accountant.records.header import decode_header
from streams.errors import Gone
from streams.log.decision_log import MAX_PAGE_BYTES, DecisionLog

_RUN: Final = 64
"""Decisions that follow one another, and are read at once: each may be as long as a body."""


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
    for first, count in _runs(numbers):
        values = log.read(partition, first, count)
        if len(values) < count:
            raise LogDamaged(f"partition {partition} has no decision {first + len(values)}")
        for number, value in enumerate(values, first):
            if size >= MAX_PAGE_BYTES:
                return found
            if number_of(value) != number:
                raise LogDamaged(f"partition {partition} has another decision at {number}")
            found.append(value)
            size += len(value)
    return found


def _runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the first of numbers that follow one another, and how many do, `_RUN` at most."""
    first, count = 0, 0
    for number in numbers:
        if count and (number != first + count or count == _RUN):
            yield first, count
            count = 0
        first, count = (first, count + 1) if count else (number, 1)
    if count:
        yield first, count


def has_decision(log: DecisionLog, partition: int, number: int, head: str) -> bool:
    """Tell whether a log has, outside its archives, the decision with a number and a hash.

    Raises: as `DecisionLog.read`.
    """
    try:
        values = log.read(partition, number, 1)
    except Gone:
        return False
    return bool(values) and hash_of(values[0]) == head
