"""State is a cache: whatever becomes of it, the log is the ledger; a damaged log is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from accountant.errors import LogDamaged
from accountant.partition.draft import genesis_decision
from accountant.records import partition_row_key
from streams.errors import Refused
from streams.processing.journal import Commit
from streams.testing import MemoryJournal, MemoryLog
from tests.streams.bodies import asking, opening
from tests.streams.processing.contract import last_of
from tests.streams.processing.stage import GENESIS, START, Sleeps, Stage, play

State = list[tuple[bytes, bytes | None]]
ROW = partition_row_key(0)


async def stage_with_history() -> Stage:
    stage = Stage()
    stage.open()
    stage.open("other")
    stage.open("idle")
    for _ in range(4):
        stage.clock.pass_(1000)
        stage.ask(1, "census")
        stage.ask(1, "other")
        await stage.settle()
    return stage


def only_last(state: State, key: bytes) -> State:
    return [(k, v) for k, v in state if k == key][-1:]


def with_total(state: State, key: bytes, found: bytes, put: bytes) -> State:
    changed = last_of(state)
    assert found in changed[key], changed[key]
    changed[key] = changed[key].replace(found, put)
    return list(changed.items())


DAMAGES: dict[str, Callable[[State], State]] = {
    "deleted": lambda state: [],
    "behind": lambda state: state[: len(state) // 2],
    "one commit behind": lambda state: state[: -len(state) // 4],
    "without its partition row": lambda state: [(k, v) for k, v in state if k != ROW],
    "only its partition row": lambda state: only_last(state, ROW),
    "without an idle dataset": lambda state: [(k, v) for k, v in state if k != b"idle"],
    "with a dataset deleted": lambda state: [*state, (b"other", None)],
    "with an old row of a dataset": lambda state: [
        *state,
        next(x for x in state if x[0] == b"other"),
    ],
    "with a total changed": lambda state: with_total(
        state, b"other", b'"epsilon":"0.4"', b'"epsilon":"0.2"'
    ),
    "with a row cut": lambda state: [*state, (b"other", b'{"type":"snap')],
    "with a row of another dataset": lambda state: [*state, (b"idle", dict(state)[b"other"])],
    "with rows unheard of": lambda state: [
        *state,
        (b"census2", b'{"version":2}'),
        (b"\xff", b"\x00"),
    ],
    "with the partition row cut": lambda state: [*state, (ROW, b"{")],
    "with the partition row deleted": lambda state: [*state, (ROW, None)],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_state_is_made_again_from_the_log(damage: str) -> None:
    async def story() -> None:
        stage = await stage_with_history()
        good = last_of(stage.log.state)
        stage.log.state = DAMAGES[damage](stage.log.state)
        observer = await stage.settle()
        assert observer.refolds == 1
        assert last_of(stage.log.state) == good
        stage.ask(9)
        await stage.settle()
        assert stage.check().accounts["census"].grants == 10

    play(story())


def test_an_old_row_of_a_dataset_idle_for_hours_is_detected() -> None:
    async def story() -> None:
        stage = await stage_with_history()
        old = next(row for row in stage.log.state[::-1] if row[0] == b"other")
        stage.ask(1, "other")
        await stage.settle()
        for _ in range(3):
            stage.clock.pass_(3_600_000)
            stage.ask(1, "census")
            await stage.settle()
        good = last_of(stage.log.state)
        stage.log.state.append(old)
        await stage.settle()
        assert last_of(stage.log.state) == good
        stage.ask(9, "other")
        await stage.settle()
        assert stage.check().accounts["other"].grants == 10

    play(story())


def test_the_state_of_another_application_is_replaced() -> None:
    async def story() -> None:
        foreign = Stage(msgspec.structs.replace(GENESIS, application="another"))
        foreign.open("foreign")
        for _ in range(20):
            foreign.ask(dataset="foreign")
        await foreign.settle()
        stage = await stage_with_history()
        good = last_of(stage.log.state)
        stage.log.state = foreign.log.state
        await stage.settle()
        assert last_of(stage.log.state) == good

    play(story())


@pytest.mark.slow
def test_a_large_state_is_rewritten_in_parts_and_survives_a_crash_between_them() -> None:
    from streams.testing import Crash, CrashPoints

    async def story() -> None:
        stage = Stage()
        for i in range(4_500):
            stage.feed("admin", opening(f"d{i}", START, stage.number()))
        await stage.settle()
        good = last_of(stage.log.state)
        stage.log.state = []
        points = CrashPoints(*(Crash(point="commit_done", nth=nth) for nth in (1, 3)))
        await stage.settle(reach=points)
        assert points.reached["commit_done"] > 3
        assert last_of(stage.log.state) == good

    play(story())


async def refused(stage: Stage, message: str, **options: Any) -> None:
    before = list(stage.log.decisions), list(stage.log.state)
    stage.ask()
    observer = await stage.settle(**options)
    assert isinstance(observer.halt, LogDamaged)
    assert message in str(observer.halt)
    assert (stage.log.decisions, stage.log.state) == before


def test_without_log_and_state_the_start_is_refused_and_names_the_command() -> None:
    async def story() -> None:
        stage = Stage()
        stage.log = MemoryLog()
        await refused(stage, "If it is new, run `accountant topics create`")

    play(story())


def test_state_without_its_log_is_refused() -> None:
    async def story() -> None:
        stage = await stage_with_history()
        stage.log.decisions = []
        await refused(stage, "restore it")

    play(story())


def test_a_long_replay_yields_to_other_tasks() -> None:
    async def story() -> None:
        stage, sleeps = Stage(), Sleeps()
        stage.open(epsilon="1000")
        stage.ask(1_100)
        await stage.settle()
        stage.log.state = []
        await stage.settle(sleep=sleeps)
        assert sleeps.slept == [0, 0]

    play(story())


class ShowsLess(MemoryJournal):
    """As a broker that leads the log no more: its first so many readers see a part of it."""

    def __init__(self, log: MemoryLog, looks: int) -> None:
        super().__init__(log)
        self._looks = looks

    async def decisions(self, since: int | None) -> AsyncIterator[bytes]:
        self._looks -= 1
        some = [value async for value in super().decisions(since)]
        for value in some[:-2] if self._looks >= 0 else some:
            yield value


@pytest.mark.parametrize("looks", [1, 2, 3])
def test_a_log_that_seems_truncated_is_read_again(looks: int) -> None:
    async def story() -> None:
        stage = await stage_with_history()
        stage.ask(1)
        journal = ShowsLess(stage.log, looks)
        observer = await stage.settle(journal=journal, looks_again=(1.0, 3.0))
        doubts = [type(error) for error in observer.drops if error is not None]
        assert doubts == [LogDamaged] * min(looks, 2)
        assert isinstance(observer.halt, LogDamaged) is (looks == 3)

    play(story())


def test_each_doubt_that_passed_is_forgotten_with_the_next_commit() -> None:
    class NowAndThen(MemoryJournal):
        """Each other commit is refused."""

        tried = 0

        async def commit(self, commit: Commit) -> None:
            self.tried += 1
            if self.tried % 2:
                raise Refused("a deposed leader answered")
            await super().commit(commit)

    async def story() -> None:
        stage = await stage_with_history()
        stage.ask(8)
        journal = NowAndThen(stage.log)
        observer = await stage.settle(journal=journal, batch=2, looks_again=(1.0, 3.0))
        assert observer.halt is None
        assert len([error for error in observer.drops if error is not None]) == 4

    play(story())


class Refuses(MemoryJournal):
    """As a broker whose ACLs let this one read, and not write."""

    async def commit(self, commit: Commit) -> None:
        raise Refused("the broker refuses")


def test_repeatedly_refused_commits_halt_despite_sound_replays() -> None:
    async def story() -> None:
        stage = await stage_with_history()
        stage.ask(1)
        observer = await stage.settle(journal=Refuses(stage.log), looks_again=(1.0, 3.0))
        assert isinstance(observer.halt, Refused)
        assert observer.refolds == 3

    play(story())


@pytest.mark.parametrize("kept", [1, 5, 11])
def test_a_log_that_ends_before_its_state_is_refused_not_refolded(kept: int) -> None:
    async def story() -> None:
        stage = await stage_with_history()
        stage.log.decisions = stage.log.decisions[:kept]
        await refused(stage, f"the log ends at decision {kept - 1}")

    play(story())


def test_a_new_log_with_old_state_is_refused() -> None:
    async def story() -> None:
        stage = await stage_with_history()
        stage.log.decisions = [genesis_decision(GENESIS, START + 1).value]
        await refused(stage, "the log ends at decision 0")

    play(story())


TAMPERINGS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "a cost edited": lambda log: [v.replace(b'"0.1"', b'"0.0"', 1) for v in log],
    "one dropped": lambda log: [*log[:6], *log[7:]],
    "two swapped": lambda log: [*log[:6], log[7], log[6], *log[8:]],
    "one twice": lambda log: [*log[:6], log[5], *log[6:]],
    "one cut": lambda log: [*log[:6], log[6][:-10], *log[7:]],
    "another genesis": lambda log: [
        genesis_decision(msgspec.structs.replace(GENESIS, partitions=2), START).value,
        *log[1:],
    ],
}


@pytest.mark.parametrize("with_state", [True, False])
@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_a_log_that_was_tampered_with_halts(tampering: str, with_state: bool) -> None:
    async def story() -> None:
        stage = await stage_with_history()
        stage.log.decisions = TAMPERINGS[tampering](stage.log.decisions)
        if not with_state:
            stage.log.state = []
        await refused(stage, "")

    play(story())


def test_a_log_without_its_beginning_is_refused_where_that_is_needed() -> None:
    async def story() -> None:
        stage = await stage_with_history()
        del stage.log.decisions[:4]
        stage.log.state = []
        await refused(stage, "expected decision 0")

    play(story())


def test_another_setting_than_the_genesis_is_refused() -> None:
    async def story() -> None:
        stage = await stage_with_history()
        stage.genesis = msgspec.structs.replace(GENESIS, window_ms=1)
        await refused(stage, "the log began as")

    play(story())


def test_ids_are_remembered_over_a_restart_with_and_without_state() -> None:
    async def story() -> None:
        stage = await stage_with_history()
        body = stage.log.inputs["requests"][0].value
        other = asking("census", START + 1000, 4, epsilon="0.2")
        for state in (stage.log.state, []):
            stage.log.state = list(state)
            stage.feed("requests", body)
            stage.feed("requests", other)
            await stage.settle()
        model = stage.check()
        assert model.outcomes["repeated", None] == 2
        assert model.accounts["census"].grants == 4

    play(story())
