"""Runs a real processor over a log in memory, in virtual time."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from accountant.partition import Partition
from accountant.partition.decide import decide as decide_record
from accountant.records import Genesis, Source
from accountant.replay.replay import Replay, state_rows
from streams.processing.journal import Journal
from streams.processing.processor import Decide, Processor
from streams.testing import (
    CrashPoints,
    ManualClock,
    MemoryJournal,
    MemoryLog,
    RecordingObserver,
    VirtualTimeLoop,
)
from tests.streams.bodies import asking, opening
from tests.streams.model import Model, judge
from tests.streams.processing.contract import last_of

START = 1_790_000_000_000
GENESIS = Genesis("stage", 0, 1, 3_600_000, 300_000)

_T = TypeVar("_T")


def play(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a test in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)


class Sleeps:
    """The `sleep` of a processor, which remembers each.

    Attributes:
        slept: seconds, in order.
    """

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(seconds)


class Stage:
    """A log with its inputs, and processors that come and go.

    Attributes:
        observers: of every processor so far.
    """

    def __init__(self, genesis: Genesis = GENESIS) -> None:
        self.genesis = genesis
        self.clock = ManualClock(START)
        self.log = MemoryLog(genesis, at=START)
        self.observers: list[RecordingObserver] = []
        self._number = 0

    def number(self) -> int:
        """Return a number that no other body has."""
        self._number += 1
        return self._number

    def feed(self, source: Source, body: bytes | None) -> None:
        """Append to an input now."""
        self.log.feed(source, body, self.clock.wall)

    def ask(self, count: int = 1, dataset: str = "census", **fields: str) -> None:
        """Append so many requests."""
        for _ in range(count):
            self.feed("requests", asking(dataset, self.clock.wall, self.number(), **fields))

    def open(self, dataset: str = "census", epsilon: str = "1") -> None:
        """Append an opening."""
        self.feed("admin", opening(dataset, self.clock.wall, self.number(), epsilon=epsilon))

    @property
    def wait_for_input(self) -> int:
        """How many inputs there are."""
        return sum(len(records) for records in self.log.inputs.values())

    def start(
        self,
        reach: Callable[[str], Awaitable[None]] | None = None,
        *,
        batch: int = 500,
        decide: Decide = decide_record,
        journal: Journal | None = None,
        looks_again: Sequence[float] = (),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> tuple[asyncio.Task[None], RecordingObserver]:
        """Start a processor."""
        reach = reach or CrashPoints()
        observer = RecordingObserver()
        self.observers.append(observer)
        processor = Processor(
            journal or MemoryJournal(self.log, reach=reach),
            self.genesis,
            observer,
            clock=self.clock,
            batch=batch,
            decide=decide,
            reach=reach,
            looks_again=looks_again,
            sleep=sleep,
        )
        return asyncio.create_task(processor.run()), observer

    async def settle(self, **options: Any) -> RecordingObserver:
        """Run a processor until every input is decided, check everything, and stop it."""
        task, observer = self.start(**options)
        await observer.until(
            lambda: (
                observer.halt is not None
                or (
                    observer.partition is not None
                    and len(self.log.decisions) == self.wait_for_input + 1
                )
            )
        )
        if observer.halt is None:
            self.check(observer.partition)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return observer

    def check(self, live: Partition | None = None) -> Model:
        """Check the invariants of the log as it is, and of a state that claims to be its end."""
        log = self.log
        rows = last_of(log.state)
        bodies = {source: [r.value for r in records] for source, records in log.inputs.items()}
        model = judge(log.decisions, bodies, rows)
        dead = sum(
            model.outcomes["invalid", reason] for reason in ("undecodable", "internal_error")
        )
        assert len(log.dead_letters) == dead
        for observer in self.observers:
            reported = observer.decisions
            if reported:  # a reported decision stays in the log, once
                assert reported[0] in log.decisions
                first = log.decisions.index(reported[0])
                assert [
                    value for value in log.decisions[first:] if value in set(reported)
                ] == reported
        refolds = [state_rows(self.refold(with_rows=some)) for some in (False, False, True)]
        assert refolds[0] == refolds[1] == refolds[2]
        assert dict(refolds[0]) == rows or not rows
        if live is not None:
            assert state_rows(live) == refolds[0]
        return model

    def refold(self, *, with_rows: bool) -> Partition:
        """Read the log back, as another process would."""
        refold = Replay(self.genesis)
        for key, value in self.log.state if with_rows else ():
            refold.take_row(key, value)
        for value in self.log.decisions:
            refold.take_decision(value)
        return refold.finish()


def outcomes(stage: Stage) -> Counter[str]:
    """Return how often the log has each reason, or else outcome."""
    decisions = [json.loads(value) for value in stage.log.decisions[1:]]
    return Counter(d.get("reason") or d["outcome"] for d in decisions)
