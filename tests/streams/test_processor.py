"""The processor decides each input once, whatever breaks around it."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import msgspec
import pytest

from accountant.decide import decide
from accountant.encoded import Encoded
from accountant.inputs import Input
from accountant.partition import Draft
from streams.errors import (
    ClockOutOfRange,
    CommitRejected,
    CommitUnknown,
    Fenced,
    Refused,
    Unavailable,
)
from streams.journal import Commit
from streams.processor import MOST_DECISION_BYTES, AlwaysEntitled, Processor, Tuning
from streams.testing import Crash, CrashPoints, MemoryJournal, RecordingObserver
from tests.streams.model import POISON
from tests.streams.stage import Stage, play

POINTS = ("owned", "decided", "commit_begun", "commit_done", "committed")
MINUTE = 60_000


def outcomes(stage: Stage) -> Counter[str]:
    decisions = [json.loads(value) for value in stage.log.decisions[1:]]
    return Counter(d.get("reason") or d["outcome"] for d in decisions)


def internal_error(draft: Draft, record: Input, clock: int) -> Encoded:
    """Decide as the real thing does, but raise on a poisoned body."""
    if POISON.encode() in (record.value or b""):
        raise ZeroDivisionError("planted")
    return decide(draft, record, clock)


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("how", ["raise", "cancel"])
@pytest.mark.parametrize("point", POINTS)
def test_a_crash_anywhere_decides_every_input_once(
    point: str, how: Literal["raise", "cancel"], nth: int
) -> None:
    async def story() -> None:
        stage = Stage()
        stage.open()
        stage.ask(12)
        crashes = [Crash(point="owned", nth=1)] if point == "owned" and nth > 1 else []
        crashes += [Crash(point="owned", nth=2)] if point == "owned" and nth > 2 else []
        points = CrashPoints(*crashes, Crash(point=point, nth=nth, how=how))
        task, observer = stage.start(points, batch=3)
        await asyncio.wait([task], timeout=20)
        assert points.reached[point] >= nth
        assert task.done() == (how == "cancel")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert observer.partition is None
        await stage.settle(batch=3)
        assert outcomes(stage) == {"opened": 1, "granted": 10, "exhausted": 2}

    play(story())


def test_nothing_of_a_paused_owner_becomes_visible_after_its_successor() -> None:
    async def story() -> None:
        for point in POINTS[:3]:
            stage = Stage()
            stage.open()
            stage.ask(12)
            points = CrashPoints(Crash(point=point, how="pause"))
            task, observer = stage.start(points, batch=5)
            await asyncio.sleep(1)
            assert points.paused == point
            await stage.settle()
            before = list(stage.log.decisions)
            points.resume()
            await asyncio.wait([task], timeout=20)
            if point == "owned":  # it then reads what the successor left, and idles
                task.cancel()
            else:
                assert isinstance(observer.drops[-1], Fenced)
                assert task.done()
            assert stage.log.decisions == before

    play(story())


def test_a_request_that_breaks_adjudication_is_set_aside_and_the_rest_goes_on() -> None:
    async def story() -> None:
        stage = Stage()
        stage.open()
        stage.ask(3)
        stage.ask(purpose=POISON)
        stage.ask(3)
        observer = await stage.settle(decide=internal_error)
        assert observer.drops == [None]
        assert outcomes(stage) == {"opened": 1, "granted": 6, "internal_error": 1}
        assert [letter.reason for letter in stage.log.dead_letters] == ["internal_error"]
        decision = json.loads(stage.log.decisions[5])
        assert decision["outcome"] == "invalid"
        assert "request" not in decision

    play(story())


def test_a_decision_too_large_for_the_log_charges_and_remembers_nothing() -> None:
    def too_large(draft: Draft, record: Input, clock: int) -> Encoded:
        encoded = decide(draft, record, clock)
        if POISON.encode() not in (record.value or b""):
            return encoded
        large = encoded.value + b" " * MOST_DECISION_BYTES
        return msgspec.structs.replace(encoded, value=large)

    async def story() -> None:
        stage = Stage()
        stage.open()
        stage.ask(purpose=POISON)
        stage.feed("admin", stage.log.inputs["admin"][0].value)
        await stage.settle(decide=too_large)
        stage.feed("requests", stage.log.inputs["requests"][0].value)
        stage.ask(2)
        await stage.settle(decide=too_large)
        assert outcomes(stage) == {"opened": 1, "repeated": 1, "internal_error": 2, "granted": 2}

    play(story())


class Picky(MemoryJournal):
    """A journal that rejects some commits."""

    rejects: bytes = b""
    error: type[Exception] = CommitRejected
    rejected = 0

    async def commit(self, commit: Commit) -> None:
        if any(self.rejects in encoded.value for encoded in commit.decisions):
            self.rejected += 1
            raise self.error("too large for the topic")
        await super().commit(commit)


@pytest.mark.parametrize("error", [CommitRejected, ZeroDivisionError])
@pytest.mark.parametrize("batch", [1, 4, 500])
def test_the_one_record_that_a_journal_rejects_is_set_aside(
    batch: int, error: type[Exception]
) -> None:
    async def story() -> None:
        stage = Stage()
        stage.open()
        stage.ask(4)
        stage.ask(purpose=POISON)
        stage.ask(2)
        stage.ask(purpose=POISON)
        stage.ask(2)
        journal = Picky(stage.log)
        journal.rejects, journal.error = b'"purpose": "%b"' % POISON.encode(), error
        observer = await stage.settle(journal=journal, batch=batch)
        assert observer.halt is None
        assert outcomes(stage) == {"opened": 1, "granted": 8, "internal_error": 2}
        assert journal.rejected <= 6

    play(story())


def test_behind_a_rejected_record_batches_are_whole_again() -> None:
    async def story() -> None:
        stage = Stage()
        stage.open()
        stage.ask(purpose=POISON)
        stage.ask(20)
        journal = Picky(stage.log)
        journal.rejects = b'"purpose": "%b"' % POISON.encode()
        observer = await stage.settle(journal=journal, batch=4)
        assert [len(commit) for commit in observer.commits] == [1] * 4 + [4] * 4 + [2]

    play(story())


def test_an_idle_processor_commits_nothing() -> None:
    class Counting(MemoryJournal):
        commits = 0

        async def commit(self, commit: Commit) -> None:
            self.commits += 1
            await super().commit(commit)

    async def story() -> None:
        stage = Stage()
        stage.open()
        journal = Counting(stage.log)
        task, observer = stage.start(journal=journal)
        await observer.until(lambda: bool(observer.commits))
        await asyncio.sleep(60)
        assert journal.commits == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    play(story())


def test_a_batch_that_takes_long_to_decide_lets_others_have_their_turn() -> None:
    turns = []

    def slowly(draft: Draft, record: Input, clock: int) -> Encoded:
        until = time.perf_counter() + 0.021
        while time.perf_counter() < until:
            pass
        return decide(draft, record, clock)

    async def sleep(seconds: float) -> None:
        turns.append(seconds)
        await asyncio.sleep(seconds)

    async def story() -> None:
        stage, observer = Stage(), RecordingObserver()
        stage.open()
        stage.ask(4)
        processor = Processor(
            MemoryJournal(stage.log),
            stage.genesis,
            observer,
            clock=stage.clock,
            decide=slowly,
            sleep=sleep,
        )
        task = asyncio.create_task(processor.run())
        await observer.until(lambda: bool(observer.commits))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert [len(commit) for commit in observer.commits] == [5]

    play(story())
    assert turns == [0] * 5


def test_a_journal_that_rejects_everything_halts_the_partition() -> None:
    async def story() -> None:
        stage = Stage()
        stage.open()
        stage.ask(4)
        observer = await stage.settle(journal=Picky(stage.log))
        assert isinstance(observer.halt, CommitRejected)
        assert len(stage.log.decisions) == 1
        assert observer.partition is None

    play(story())


def test_a_fault_elsewhere_makes_no_record_a_suspect() -> None:
    class Leaky(MemoryJournal):
        """Lets a library's own error through while it is owned, again and again."""

        owned = 0

        async def own(self) -> None:
            self.owned += 1
            if 1 < self.owned < 5:
                raise OSError("connection reset")
            await super().own()

    async def story() -> None:
        stage = Stage()
        stage.open()
        stage.ask(4)
        journal = Leaky(stage.log, reach=CrashPoints(Crash(point="commit_begun")))
        await stage.settle(journal=journal)
        assert outcomes(stage) == {"opened": 1, "granted": 4}

    play(story())


@pytest.mark.parametrize("error", [Refused("the broker refuses"), CommitUnknown("away")])
def test_what_no_record_has_caused_makes_none_a_suspect_of_the_fault_behind_it(
    error: Exception,
) -> None:
    reset = OSError("connection reset")

    class Scripted(MemoryJournal):
        """Fails as it is told to."""

        owning: ClassVar = [None, reset, reset, None, reset]
        committing: ClassVar = [Unavailable("away"), error]

        async def own(self) -> None:
            error = self.owning.pop(0) if self.owning else None
            if error:
                raise error
            await super().own()

        async def commit(self, commit: Commit) -> None:
            if self.committing:
                raise self.committing.pop(0)
            await super().commit(commit)

    async def story() -> None:
        stage = Stage()
        stage.open()
        stage.ask(4)
        await stage.settle(journal=Scripted(stage.log), looks_again=(1.0, 3.0))
        assert outcomes(stage) == {"opened": 1, "granted": 4}

    play(story())


def test_each_owning_ends_before_the_next() -> None:
    told = []

    class Telling(MemoryJournal):
        async def own(self) -> None:
            told.append("own")
            await super().own()

        async def drop(self) -> None:
            told.append("drop")
            await super().drop()

    async def story() -> None:
        stage = Stage()
        stage.open()
        stage.ask(4)
        crashes = CrashPoints(Crash(point="commit_begun"), Crash(point="commit_done", nth=2))
        await stage.settle(journal=Telling(stage.log, reach=crashes), batch=2)
        assert told == ["own", "drop"] * 3

    play(story())


@pytest.mark.parametrize("within", [False, True], ids=["behind its batch", "within it"])
def test_an_input_that_comes_again_is_not_decided_again(within: bool) -> None:
    class Repeating(MemoryJournal):
        """Once gives inputs that were decided already, as a reader at a wrong place would."""

        kept: Sequence[Input] = ()

        async def read(self, most: int, wait: float) -> list[Input]:
            kept, self.kept = self.kept, ()
            if kept:
                return list(kept)
            records = await super().read(most, wait)
            if self.owned == 1:
                if within:
                    return [*records, records[-1]]
                self.kept = records
            return records

        owned = 0

        async def own(self) -> None:
            self.owned += 1
            self.kept = ()
            await super().own()

    async def story() -> None:
        stage = Stage()
        stage.open()
        stage.ask(4)
        journal = Repeating(stage.log)
        await stage.settle(journal=journal)
        assert journal.owned == 2
        assert outcomes(stage) == {"opened": 1, "granted": 4}

    play(story())


def decided_at(stage: Stage) -> Sequence[Any]:
    return [json.loads(value)["decided_at"] for value in stage.log.decisions]


@pytest.mark.parametrize("jump", [6 * MINUTE, -6 * MINUTE])
def test_a_clock_that_jumps_stops_decisions_until_it_is_right_again(jump: int) -> None:
    async def story() -> None:
        stage = Stage()
        stage.open()
        task, observer = stage.start()
        await observer.until(lambda: len(observer.decisions) == 1)
        stage.clock.jump(jump)
        stage.ask(2)
        await observer.until(lambda: len(observer.drops) > 2)
        assert all(isinstance(error, ClockOutOfRange) for error in observer.drops)
        assert len(stage.log.decisions) == 2
        stage.clock.jump(-jump)
        await observer.until(
            lambda: len(stage.log.decisions) == 4 and observer.partition is not None
        )
        assert decided_at(stage) == sorted(decided_at(stage))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    play(story())


def test_a_clock_behind_the_log_decides_nothing() -> None:
    async def story() -> None:
        stage = Stage()
        stage.open()
        await stage.settle()
        stage.clock.jump(-6 * MINUTE)
        stage.ask()
        task, observer = stage.start()
        await observer.until(lambda: bool(observer.drops))
        assert "behind the last decision" in str(observer.drops[0])
        assert len(stage.log.decisions) == 2
        stage.clock.pass_(2 * MINUTE)
        await observer.until(lambda: len(stage.log.decisions) == 3)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        stage.check()

    play(story())


def test_a_journal_that_is_away_is_waited_for_however_long() -> None:
    class Away(MemoryJournal):
        tried = 0

        async def own(self) -> None:
            self.tried += 1
            if self.tried <= 8:
                raise Unavailable("away")
            await super().own()

    paused = []

    async def sleep(seconds: float) -> None:
        if seconds:
            paused.append(seconds)
        await asyncio.sleep(seconds)

    async def story() -> None:
        stage, observer = Stage(), RecordingObserver()
        stage.open()
        journal = Away(stage.log)
        processor = Processor(journal, stage.genesis, observer, clock=stage.clock, sleep=sleep)
        task = asyncio.create_task(processor.run())
        await observer.until(lambda: bool(observer.commits))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert outcomes(stage) == {"opened": 1}

    play(story())
    assert paused == [0.05, 0.2, 0.5, 1.0, 2.0, 2.0, 2.0, 2.0]


def test_faults_are_answered_with_longer_and_longer_pauses() -> None:
    async def story() -> None:
        stage = Stage()
        stage.open()
        stage.clock.jump(-6 * MINUTE)
        task, observer = stage.start()
        await asyncio.sleep(60)
        # A refold of a large log each 50 ms would leave no time for anything else.
        assert observer.refolds < 40
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    play(story())


def test_an_owner_whose_cancellation_was_swallowed_commits_nothing_once_revoked() -> None:
    class Revoked(AlwaysEntitled):
        asked = 0

        def holds(self) -> bool:
            Revoked.asked += 1
            return Revoked.asked < 4  # twice for the first batch, then before the next read

    async def story() -> None:
        stage = Stage()
        stage.open()
        stage.ask(4)
        observer = RecordingObserver()
        processor = Processor(
            MemoryJournal(stage.log),
            stage.genesis,
            observer,
            entitlement=Revoked(),
            clock=stage.clock,
            tuning=Tuning(batch=2),
        )
        with pytest.raises(asyncio.CancelledError):
            await processor.run()
        assert sum(outcomes(stage).values()) == 2

    play(story())


def test_an_owner_that_was_revoked_while_it_refolded_shows_nothing() -> None:
    class Revoked(AlwaysEntitled):
        def holds(self) -> bool:
            return False

    async def story() -> None:
        stage, observer = Stage(), RecordingObserver()
        journal = MemoryJournal(stage.log)
        processor = Processor(journal, stage.genesis, observer, entitlement=Revoked())
        with pytest.raises(asyncio.CancelledError):
            await processor.run()
        assert (observer.refolds, observer.drops) == (0, [None])

    play(story())
