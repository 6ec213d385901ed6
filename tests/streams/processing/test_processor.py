"""The processor decides each input once, whatever breaks around it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Literal

import pytest

from accountant.partition.decide import decide
from accountant.partition.draft import Draft
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.inputs import Input
from accountant.replay.replay import state_rows
from streams.errors import ClockOutOfRange, Fenced, Unavailable
from streams.processing.observers import AlwaysEntitled
from streams.processing.processor import Processor
from streams.testing import Crash, CrashPoints, MemoryJournal, RecordingObserver
from tests.streams.processing.stage import Sleeps, Stage, outcomes, play

POINTS = ("owned", "decided", "commit_begun", "commit_done", "committed")
MINUTE = 60_000


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
        points = CrashPoints(*crashes, Crash(point=point, nth=nth, action=how))
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
            points = CrashPoints(Crash(point=point, action="pause"))
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


def test_each_owning_ends_before_the_next() -> None:
    reported = []

    class Telling(MemoryJournal):
        async def own(self) -> None:
            reported.append("own")
            await super().own()

        async def drop(self) -> None:
            reported.append("drop")
            await super().drop()

    async def story() -> None:
        stage = Stage()
        stage.open()
        stage.ask(4)
        crashes = CrashPoints(Crash(point="commit_begun"), Crash(point="commit_done", nth=2))
        await stage.settle(journal=Telling(stage.log, reach=crashes), batch=2)
        assert reported == ["own", "drop"] * 3

    play(story())


def test_an_idle_processor_commits_nothing() -> None:
    async def story() -> None:
        stage = Stage()
        stage.open()
        task, observer = stage.start()
        await observer.until(lambda: bool(observer.commits))
        await asyncio.sleep(60)
        assert len(observer.commits) == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    play(story())


def test_a_slow_batch_yields_to_other_tasks() -> None:
    stage = Stage()

    def slowly(draft: Draft, record: Input, clock: int) -> EncodedDecision:
        stage.clock.pass_(21)
        return decide(draft, record, clock)

    async def story() -> None:
        sleeps = Sleeps()
        stage.open()
        stage.ask(4)
        observer = await stage.settle(decide=slowly, sleep=sleeps)
        assert [len(commit) for commit in observer.commits] == [5]
        assert sleeps.slept == [0] * 5

    play(story())


@pytest.mark.parametrize("within", [False, True], ids=["behind its batch", "within it"])
def test_an_input_that_comes_again_is_not_decided_again(within: bool) -> None:
    class Repeating(MemoryJournal):
        """Once gives inputs that were decided already, as a reader at a wrong place would."""

        kept: Sequence[Input] = ()

        async def read(self, limit: int, wait: float) -> list[Input]:
            kept, self.kept = self.kept, ()
            if kept:
                return list(kept)
            records = await super().read(limit, wait)
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
        task, observer = stage.start(journal=journal)
        await asyncio.sleep(20)
        assert journal.owned == 2
        assert outcomes(stage) == {"opened": 1, "granted": 4}
        stage.check(observer.partition)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

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


def test_a_processor_waits_for_an_unavailable_journal_without_limit() -> None:
    class ProviderUnavailable(MemoryJournal):
        tried = 0

        async def own(self) -> None:
            self.tried += 1
            if self.tried <= 8:
                raise Unavailable("away")
            await super().own()

    async def story() -> None:
        stage, sleeps = Stage(), Sleeps()
        stage.open()
        await stage.settle(journal=ProviderUnavailable(stage.log), sleep=sleeps)
        assert outcomes(stage) == {"opened": 1}
        assert sleeps.slept == [0.05, 0.2, 0.5, 1.0, 2.0, 2.0, 2.0, 2.0]

    play(story())


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


def test_a_revoked_owner_commits_nothing_even_if_its_cancellation_was_lost() -> None:
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
            batch=2,
        )
        task = asyncio.create_task(processor.run())
        await asyncio.wait([task], timeout=20)
        assert task.cancelled()
        assert sum(outcomes(stage).values()) == 2

    play(story())


def test_an_owner_revoked_during_its_replay_reports_no_state() -> None:
    class Revoked(AlwaysEntitled):
        def holds(self) -> bool:
            return False

    async def story() -> None:
        stage, observer = Stage(), RecordingObserver()
        journal = MemoryJournal(stage.log)
        processor = Processor(journal, stage.genesis, observer, entitlement=Revoked())
        task = asyncio.create_task(processor.run())
        await asyncio.wait([task], timeout=20)
        assert task.cancelled()
        assert (observer.refolds, observer.drops) == (0, [None])

    play(story())


def test_during_a_commit_no_caller_is_answered_and_the_state_equals_the_log() -> None:
    async def story() -> None:
        stage = Stage()
        await stage.settle()
        points = CrashPoints(Crash(point="commit_begun", action="pause"))
        task, observer = stage.start(points)
        stage.open()
        stage.ask(3)
        await asyncio.sleep(1)
        assert points.paused == "commit_begun"
        assert observer.decisions == []
        assert observer.partition is not None
        assert state_rows(observer.partition) == state_rows(stage.refold(with_rows=False))
        points.resume()
        await observer.until(lambda: len(observer.decisions) == stage.wait_for_input)
        stage.check(observer.partition)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    play(story())
