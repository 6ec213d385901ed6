"""What some decisions add to an index, counted before anything is written."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from accountant.amounts import Units, parse_units
from accountant.errors import LogDamaged
from accountant.partition import hash_of
from accountant.records import DECODE_ERRORS, check_maker
from accountant.records.header import DecisionHeader, decode_header
from accountant.records.parts import by_dataset
from accountant.records.request_names import RequestDetails, decode_request_details
from accountant.views.usage import returned_by

MAX_LARGEST: Final = 20
"""The largest grants of a dataset, which are stored with their requests."""


class LogDiffers(LogDamaged):
    """The next decision does not follow the one that the index has reached."""


class UnreadableDecision(LogDamaged):
    """A decision cannot be read; the index stays before it."""


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

    def merge(self, other: Tally) -> None:
        """Add another tally of the same key."""
        self.granted += other.granted
        self.refused += other.refused
        self.spent += other.spent
        if other.sequence > self.sequence:
            self.sequence, self.decided_at = other.sequence, other.decided_at


Tallies = dict[tuple[str, str], Tally]
"""By dataset and key: an analyst, a purpose, or a day such as `2026-11-23`; of refusals the reason,
with the scope of the level that has refused, if one has: `exhausted`, `exhausted team`."""


class LargeGrant(NamedTuple):
    """A grant as `why` reports it.

    Attributes:
        cost: in the additive sum, in units of 1e-40.
        sequence: number of the decision in its dataset.
    """

    cost: Units
    sequence: int
    request_id: str
    analyst: str
    purpose: str
    decided_at: str


class Largest:
    """The largest of some grants of one dataset, that come in the order of their numbers.

    Attributes:
        minimum: only what costs more may be among them.
    """

    __slots__ = ("_found", "minimum")

    def __init__(self) -> None:
        # Plain tuples sort the largest first, and of equal ones the earliest.
        self._found: list[tuple[Units, int, RequestDetails, str]] = []
        self.minimum: Units = 0

    def take(self, cost: Units, sequence: int, asked: RequestDetails, decided_at: str) -> None:
        """Take one whose cost exceeds `minimum`."""
        self._found.append((-cost, sequence, asked, decided_at))
        if len(self._found) >= 2 * MAX_LARGEST:
            self._found = sorted(self._found)[:MAX_LARGEST]
            self.minimum = -self._found[-1][0]

    def sorted(self) -> list[LargeGrant]:
        """Return the largest, `MAX_LARGEST` at most."""
        return [
            LargeGrant(
                -cost, sequence, asked.request_id, asked.analyst or "", asked.purpose, decided_at
            )
            for cost, sequence, asked, decided_at in sorted(self._found)[:MAX_LARGEST]
        ]


@dataclass(slots=True)
class DecisionTally:
    """What a run of decisions of one partition comes to.

    Attributes:
        datasets: the unit of a dataset ("" where the run does not have it) and its generation.
        places: the dataset, the decision's number in it, and its number in the partition.
        requests: how many grants and refusals.
        reasons: of refusals.
        analyst_days: by dataset, day and analyst, in the order in which they came.
        largest: grants by dataset.
        since: of datasets whose beginning was archived, the number and the time of the first
            decision that `reasons`, `analyst_days` and `largest` have.
        last: number of the last decision.
        head: hash of the last decision.
    """

    datasets: dict[str, tuple[str, int]] = field(default_factory=dict)
    places: list[tuple[str, int, int]] = field(default_factory=list)
    analysts: Tallies = field(default_factory=dict)
    purposes: Tallies = field(default_factory=dict)
    days: Tallies = field(default_factory=dict)
    requests: int = 0
    reasons: Tallies = field(default_factory=dict)
    analyst_days: dict[tuple[str, str, str], Tally] = field(default_factory=dict)
    largest: dict[str, Largest] = field(default_factory=dict)
    since: dict[str, tuple[int, str]] = field(default_factory=dict)
    last: int = -1
    head: str = ""

    def sum_up(self) -> None:
        """Add the days of analysts to `analysts` and `days`; once, when all is counted."""
        for (dataset, day, analyst), tally in self.analyst_days.items():
            for tallies, key in ((self.analysts, analyst), (self.days, day)):
                found = tallies.get((dataset, key))
                if found is None:
                    found = tallies[dataset, key] = Tally()
                found.merge(tally)


def count(values: Iterable[bytes], *, after: int, head: str | None) -> DecisionTally:
    """Count decisions that follow one another in the log.

    Args:
        after: number of the decision before the first of them; -1 before decision 0.
        head: hash of that decision, None where there is none.

    Raises:
        LogDiffers: they do not follow it.
        UnreadableDecision.
    """
    counted, expected, value = DecisionTally(last=after), head, b""
    for value in values:
        try:
            line = decode_header(value)
            if line.partition_sequence != counted.last + 1:
                raise LogDiffers(f"decision {line.partition_sequence} follows {counted.last}")
            # The hashes of a run's inner decisions are the auditor's to check.
            if expected is not None and line.previous != expected:
                raise LogDiffers(f"decision {counted.last} has another hash")
            _add(counted, line)
        except DECODE_ERRORS as error:
            with suppress(*DECODE_ERRORS):
                check_maker(value)  # another version may have made it: then it is not damaged
            raise UnreadableDecision(
                f"decision {counted.last + 1} cannot be read: {error}"
            ) from error
        counted.last, expected = line.partition_sequence, None
    counted.sum_up()
    counted.head = hash_of(value) if value else head or ""
    return counted


def add(counted: DecisionTally, value: bytes) -> None:
    """Add the next decision of a whole log to the sums alone; another reader checks the chain.

    They are all that a seal keeps: neither places nor days by analyst, reasons or grants.

    Raises: DECODE_ERRORS.
    """
    _add(counted, decode_header(value))
    counted.sum_up()
    for each in (counted.places, counted.analyst_days, counted.reasons, counted.largest):
        each.clear()


def add_grant(
    counted: DecisionTally,
    dataset: str,
    sequence: int,
    decided_at: str,
    asked: RequestDetails,
    charged: Units,
) -> None:
    """Add the grant of a request on one dataset to the sums alone, as `add` does from its bytes.

    Args:
        charged: its cost in the first of the dataset's sums.
    """
    if dataset not in counted.datasets:
        counted.datasets[dataset] = "", 1
    if not asked.analyst or asked.grant:
        return
    counted.requests += 1
    for tallies, key in (
        (counted.analysts, asked.analyst),
        (counted.purposes, asked.purpose),
        (counted.days, decided_at[:10]),
    ):
        tally = tallies.get((dataset, key))
        if tally is None:
            tally = tallies[dataset, key] = Tally()
        tally.granted += 1
        tally.spent += charged
        tally.sequence, tally.decided_at = sequence, decided_at


def add_archived(counted: DecisionTally, value: bytes) -> None:
    """Add the place of an archived decision, whose sums the seal has, and what the seal lacks.

    Raises: DECODE_ERRORS.
    """
    line = decode_header(value)
    for part in by_dataset(line):
        if part.dataset is not None and part.sequence is not None:
            counted.since.setdefault(part.dataset, (part.sequence, part.decided_at))
    alone = DecisionTally(analyst_days=counted.analyst_days, reasons=counted.reasons)
    alone.largest, alone.places = counted.largest, counted.places
    _add(alone, line)


def _add(counted: DecisionTally, line: DecisionHeader) -> None:
    if line.parts:
        for part in by_dataset(line):
            add_part(counted, part)
    else:
        add_part(counted, line)


def add_part(counted: DecisionTally, line: DecisionHeader) -> None:
    """Add a decision as one of its datasets sees it, but for `sum_up`."""
    dataset, sequence = line.dataset, line.sequence
    # Decisions without a dataset, such as a reset of the clock, or without a number in it, such
    # as a repeat, are no usage.
    if dataset is None or sequence is None:
        return
    if line.budget is not None or dataset not in counted.datasets:
        unit = next(iter(line.budget or ()), "")
        counted.datasets[dataset] = unit, line.generation or 1
    counted.places.append((dataset, sequence, line.partition_sequence))
    if line.outcome.is_step:
        _add_step(counted, line, dataset, sequence)
        return
    granted = line.outcome.charges
    # A request that waits is counted once it is answered, by the decision that answers it.
    if not line.outcome.answers_request or line.outcome.waits:
        return
    asked = decode_request_details(line.request)
    if not asked.analyst or asked.grant:
        return  # an owner's record, or a step of a reservation
    counted.requests += 1
    at = line.decided_at
    day = dataset, at[:10], asked.analyst
    tally = counted.analyst_days.get(day)
    if tally is None:
        tally = counted.analyst_days[day] = Tally()
    purpose = counted.purposes.get((dataset, asked.purpose))
    if purpose is None:
        purpose = counted.purposes[dataset, asked.purpose] = Tally()
    tally.sequence = purpose.sequence = sequence
    tally.decided_at = purpose.decided_at = at
    if not granted:
        tally.refused += 1
        purpose.refused += 1
        _add_refusal(counted, line, dataset, sequence)
        return
    charged = first_cost(line)
    tally.granted += 1
    purpose.granted += 1
    tally.spent += charged
    purpose.spent += charged
    largest = counted.largest.get(dataset)
    if largest is None:
        largest = counted.largest[dataset] = Largest()
    if charged > largest.minimum:
        largest.take(charged, sequence, asked, at)


def first_cost(line: DecisionHeader) -> Units:
    """Return what a decision has charged: the budget's first sum is the first of a cost, too."""
    return parse_units(next(iter((line.cost or {}).values()), "0"))


def _add_step(counted: DecisionTally, line: DecisionHeader, dataset: str, sequence: int) -> None:
    """Subtract what a reservation gives back, of the day and the purpose of its request."""
    step = line.reservation
    back = 0 if step is None else returned_by(step, line.totals)
    if step is None or not back:
        return
    day = dataset, (step.reserved_at or line.decided_at)[:10], step.analyst
    for tally in (
        counted.analyst_days.setdefault(day, Tally()),
        counted.purposes.setdefault((dataset, step.purpose), Tally()),
    ):
        tally.spent -= back
        tally.sequence = max(tally.sequence, sequence)
        tally.decided_at = max(tally.decided_at, line.decided_at)


def _add_refusal(counted: DecisionTally, line: DecisionHeader, dataset: str, sequence: int) -> None:
    reason = line.reason or ""
    if line.level is not None:
        reason += f" {line.level.scope}"
    tally = counted.reasons.setdefault((dataset, reason), Tally())
    tally.refused += 1
    tally.sequence, tally.decided_at = sequence, line.decided_at
