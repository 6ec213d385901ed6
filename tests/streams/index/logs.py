"""Logs for an index to follow, and what a count of them from the first decision on says."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

from accountant.partition.operate import reset_clock
from streams.index import UsageIndex
from streams.index.rows import Rows
from streams.index.usage_index import NOTHING
from streams.log.decision_log import DecisionLog, Part, PartSize
from tests.accountant.world import World

DAY_MS = 86_400_000
PURPOSES = ("", "a,b", 'say "x" \\u0000', "α: β@γ", "(others)")


class ListedLog(DecisionLog):
    """A log in memory; it may grow, or be another one, while it is read.

    Every partition of it is this one; `ListedLogs` has several.
    """

    def __init__(self, values: Sequence[bytes]) -> None:
        self.values = list(values)
        self.fault: Exception | None = None
        self.firsts: list[int] = []

    def read(self, partition: int, first: int, limit: int) -> list[bytes]:
        if self.fault is not None:
            raise self.fault
        self.firsts.append(first)
        return self.values[first : first + limit]

    def last(self, partition: int) -> tuple[int, bytes]:
        return len(self.values) - 1, self.values[-1]

    def seal(self, partition: int) -> None:
        """Return None: a listed log has no archives."""

    def parts(self, *, since: int | None = None, only: int | None = None) -> Iterator[Part]:
        if only in {None, 0}:
            yield Part(0, iter(self.values))

    def sizes(self) -> list[PartSize]:
        return [PartSize(0, len(self.values))]

    def forget(self, partition: int) -> None:
        """Do nothing: nothing is remembered."""

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


class ListedLogs(ListedLog):
    """A log of several partitions in memory."""

    def __init__(self, logs: Sequence[ListedLog]) -> None:
        super().__init__(())
        self.logs = logs

    def read(self, partition: int, first: int, limit: int) -> list[bytes]:
        return self.logs[partition].read(partition, first, limit)

    def last(self, partition: int) -> tuple[int, bytes]:
        return self.logs[partition].last(partition)

    def parts(self, *, since: int | None = None, only: int | None = None) -> Iterator[Part]:
        for number, log in enumerate(self.logs):
            if only in {None, number}:
                yield Part(number, iter(log.values))

    def sizes(self) -> list[PartSize]:
        return [PartSize(number, len(log.values)) for number, log in enumerate(self.logs)]


def busy_world(rounds: int = 30) -> World:
    """Return a partition whose two datasets were asked by many, whose clock was set back once."""
    world = World()
    world.open("census", epsilon="1", filter="basic")
    world.open("adult", epsilon="100", filter="basic")
    for number in range(rounds):
        world.now += DAY_MS // 5
        claim = "pure:5" if number % 4 == 3 else f"pure:0.{number % 9 + 1:040d}"[:40]
        dataset = "adult" if number % 3 else "census"
        purpose = PURPOSES[number % len(PURPOSES)]
        world.ask(claim, dataset=dataset, analyst=f"a{number % 4}", purpose=purpose)
        world.ask(dataset="nowhere")
        if number == rounds // 2:
            world.took(reset_clock(world.draft, world.now - 9 * DAY_MS, "it was ahead"))
            world.now -= 9 * DAY_MS
    world.commit()
    return world


def recounted(log: Sequence[bytes], dataset: str, by: str) -> dict[str, tuple[int, int, Fraction]]:
    """Return grants, refusals and exact cost by key, counted plainly from the whole log."""
    found: dict[str, tuple[int, int, Fraction]] = {}
    for value in log:
        decision = json.loads(value)
        request = decision.get("request") or {}
        if decision.get("dataset") != dataset or "sequence" not in decision:
            continue
        if decision["outcome"] not in {"granted", "refused"}:
            continue
        keys = {
            "analyst": request["analyst"],
            "purpose": request.get("purpose", ""),
            "day": decision["decided_at"][:10],
            "month": decision["decided_at"][:7],
        }
        granted, refused, spent = found.get(keys[by], (0, 0, Fraction(0)))
        if decision["outcome"] == "granted":
            cost = Fraction(next(iter(decision["cost"].values())))
            found[keys[by]] = granted + 1, refused, spent + cost
        else:
            found[keys[by]] = granted, refused + 1, spent
    return found


def rows_of(index: UsageIndex) -> Rows:
    """Return what the index says now; nobody else writes to it."""
    with index.at_last() as rows:
        return rows


def index_counts(index: Rows, dataset: str, by: str) -> dict[str, tuple[int, int, Fraction]]:
    """Return the same of an index."""
    rows = index.usage(dataset, by)  # type: ignore[arg-type]
    return {row.key: (row.granted, row.refused, Fraction(row.spent)) for row in rows}


def filled(path: Path, log: Sequence[bytes], *, slices: int = 7) -> UsageIndex:
    """Return an index that has taken in a log, so many decisions at a time."""
    index, place = UsageIndex.open(path), NOTHING
    for first in range(0, len(log), slices):
        place = index.take(0, place, log[first : first + slices])
    return index


def end_of(log: Sequence[bytes]) -> int:
    return len(log) - 1
