"""What some decisions add to an index, counted before anything is written."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from accountant.amounts import Units, parse_units
from accountant.errors import LogDamaged
from accountant.partition import hash_of
from accountant.records import DECODE_ERRORS, NO_REQUEST, check_maker
from accountant.records.outcomes import Outcome


class LogDiffers(LogDamaged):
    """The next decision does not follow the one that the index has reached."""


class UnreadableDecision(LogDamaged):
    """A decision cannot be read; the index stays before it."""


class Line(msgspec.Struct, tag_field="type", tag="decision", gc=False):
    """The fields of a decision that the index takes; see `records.Decision`."""

    partition_sequence: int
    previous: str
    decided_at: str
    outcome: Outcome
    dataset: str | None = None
    generation: int | None = None
    sequence: int | None = None
    cost: dict[str, str] | None = None
    budget: dict[str, str] | None = None
    request: msgspec.Raw = NO_REQUEST


class _Asked(msgspec.Struct, gc=False):
    analyst: str | None = None
    purpose: str = ""


_decode_line = msgspec.json.Decoder(Line).decode
_decode_asked = msgspec.json.Decoder(_Asked).decode


class Tally(msgspec.Struct, gc=False):
    """The requests with one key.

    Attributes:
        spent: what the grants cost, in units of 1e-40.
        sequence, decided_at: of the last one.
    """

    granted: int = 0
    refused: int = 0
    spent: Units = 0
    sequence: int = 0
    decided_at: str = ""


Tallies = dict[tuple[str, str], Tally]
"""By dataset and key: an analyst, a purpose, or a day such as `2026-11-23`."""


@dataclass(slots=True)
class Counted:
    """What a run of decisions of one partition comes to.

    Attributes:
        datasets: the unit of a dataset ("" where the run does not tell it) and its generation.
        places: the dataset, the decision's number in it, and its number in the partition.
        requests: how many grants and refusals.
        last: number of the last decision.
        head: hash of the last decision.
    """

    datasets: dict[str, tuple[str, int]] = field(default_factory=dict)
    places: list[tuple[str, int, int]] = field(default_factory=list)
    analysts: Tallies = field(default_factory=dict)
    purposes: Tallies = field(default_factory=dict)
    days: Tallies = field(default_factory=dict)
    requests: int = 0
    last: int = -1
    head: str = ""


def count(values: Iterable[bytes], *, after: int, head: str | None) -> Counted:
    """Count decisions that follow one another in the log.

    Args:
        after: number of the decision before the first of them; -1 before decision 0.
        head: hash of that decision, None where there is none.

    Raises:
        LogDiffers: they do not follow it.
        UnreadableDecision.
    """
    counted, expected, value = Counted(last=after), head, b""
    for value in values:
        try:
            line = _decode_line(value)
            if line.partition_sequence != counted.last + 1:
                raise LogDiffers(f"decision {line.partition_sequence} follows {counted.last}")
            # The hashes of a run's inner decisions are the auditor's to check.
            if expected is not None and line.previous != expected:
                raise LogDiffers(f"decision {counted.last} has another hash")
            _add(counted, line)
        except DECODE_ERRORS as error:
            with suppress(*DECODE_ERRORS):
                check_maker(value)  # a newer version may have made it: then it is not damaged
            raise UnreadableDecision(
                f"decision {counted.last + 1} cannot be read: {error}"
            ) from error
        counted.last, expected = line.partition_sequence, None
    counted.head = hash_of(value) if value else head or ""
    return counted


def add(counted: Counted, value: bytes) -> None:
    """Add the next decision of a whole log, whose chain somebody else checks; without its place.

    Raises: DECODE_ERRORS.
    """
    _add(counted, _decode_line(value))
    counted.places.clear()


def add_place(counted: Counted, value: bytes) -> None:
    """Add the place of a decision, and nothing else.

    Raises: DECODE_ERRORS.
    """
    line = _decode_line(value)
    if line.dataset is not None and line.sequence is not None:
        counted.places.append((line.dataset, line.sequence, line.partition_sequence))


def _add(counted: Counted, line: Line) -> None:
    dataset, sequence = line.dataset, line.sequence
    # Decisions without a dataset, such as a reset of the clock, or without a number in it, such
    # as a repeat, are nobody's usage.
    if dataset is None or sequence is None:
        return
    if line.budget is not None or dataset not in counted.datasets:
        unit = next(iter(line.budget or ()), "")
        counted.datasets[dataset] = unit, line.generation or 1
    counted.places.append((dataset, sequence, line.partition_sequence))
    granted = line.outcome is Outcome.GRANTED
    if not granted and line.outcome is not Outcome.REFUSED:
        return
    asked = _decode_asked(line.request)
    if asked.analyst is None:
        return  # an owner's record
    counted.requests += 1
    # The sum that is the budget's first is the first of a cost, too.
    charged = parse_units(next(iter((line.cost or {}).values()), "0")) if granted else 0
    for tallies, key in (
        (counted.analysts, asked.analyst),
        (counted.purposes, asked.purpose),
        (counted.days, line.decided_at[:10]),
    ):
        tally = tallies.get((dataset, key))
        if tally is None:
            tally = tallies[dataset, key] = Tally()
        if granted:
            tally.granted += 1
            tally.spent += charged
        else:
            tally.refused += 1
        tally.sequence, tally.decided_at = sequence, line.decided_at
