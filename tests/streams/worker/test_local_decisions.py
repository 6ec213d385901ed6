"""Local decisions follow those that were read, without a gap."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant.partition import Partition
from accountant.records.encoded_decision import CountedDecision, EncodedDecision
from accountant.records.header import decode_header
from accountant.records.inputs import Input
from accountant.replay.follow import FollowedPartition, OtherLog
from accountant.views.counted_decisions import counted_decisions, runs
from accountant.views.usage import UsageTable, views_of
from streams.processing.observers import Committed
from streams.service.live_views import CountedDecisions
from streams.worker.local_decisions import LocalDecisions
from streams.worker.tables import WorkerTables
from tests.accountant.histories import worlds
from tests.accountant.views.test_datasets import BASIC
from tests.accountant.world import World, opened
from tests.nightly import examples


def followed(world: World, log: list[EncodedDecision]) -> FollowedPartition:
    found = FollowedPartition.from_beginning(world.genesis)
    for each in log:
        found.take(decode_header(each.value), each.value)
    return found


class Stage:
    """A log that grows, its reader, and tables that both fill as the read side fills them."""

    def __init__(self, log: list[EncodedDecision], world: World, most_waiting: int) -> None:
        self.log = log
        self.world = world
        self.owner = followed(world, log[:1])  # the genesis
        self.reader = followed(world, log[:1])
        self.own = LocalDecisions(most_waiting)
        self.tables = WorkerTables({}, {}, CountedDecisions(), self.state)
        self.committed = 1
        self.position = 0
        self.left = False
        self.owns = False

    def state(self, partition: int) -> Partition | None:
        return self.own.state(partition) or self.reader.state

    def show(self, decided: Sequence[CountedDecision], *, own: int | None) -> None:
        for dataset, run in runs(decided).items():
            self.tables.take_run(0, dataset, run, own=own)

    def commit(self, count: int) -> None:
        new = self.log[self.committed : self.committed + count]
        self.committed += len(new)
        for each in new:
            self.owner.take(decode_header(each.value), each.value)
        if new and self.owns:
            record = Input("requests", 0, None, None, 0)
            records = [(record, each) for each in new]
            self.own.committed(Committed(self.owner.state, records, 0.0))

    def refold(self) -> None:
        if not self.owns:
            self.own.replayed(self.owner.state, 0.0)
            self.owns = True

    def drop(self) -> None:
        self.own.dropped(0, None)
        self.owns = False

    def read(self, most: int) -> None:
        for since in self.own.read_on().values():
            self.left = False
            self.position = next(i for i, each in enumerate(self.log) if each.decided_at >= since)
            if self.own.state(0) is None:
                self.reader = followed(self.world, self.log[: self.committed])
        if self.left:
            return
        got = self.log[self.position : min(self.committed, self.position + most)]
        if got:
            self.position += len(got)
            lines = [decode_header(each.value) for each in got]
            for line, each in zip(lines, got, strict=True):
                with suppress(OtherLog):  # decisions that the owner has shown lie between
                    self.reader.take(line, each.value)
            self.show([each for line in lines for each in counted_decisions(line)], own=None)
            self.left = self.own.reach(0, got[-1].partition_sequence)

    def take(self) -> None:
        for decided in self.own.take().values():
            self.show(decided, own=-1)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.integers(1, 8)),
        st.tuples(st.just("read"), st.integers(1, 12)),
        st.tuples(st.just("take")),
        st.tuples(st.just("refold")),
        st.tuples(st.just("drop")),
    ),
    max_size=60,
)


@pytest.mark.slow
@settings(max_examples=examples(300), deadline=None)
@given(worlds(), STEPS, st.sampled_from([3, 1000]))
def test_no_interleaving_of_reading_owning_and_dropping_misses_a_decision(
    history: tuple[World, list[bytes]], steps: list[tuple[str, int]], most_waiting: int
) -> None:
    world = history[0]
    stage = Stage(world.encoded, world, most_waiting)
    for step, *count in steps:
        getattr(stage, step)(*count)
    stage.commit(len(world.encoded))
    for _ in range(2):  # take the waiting decisions, then read the skipped ones
        stage.take()
        stage.read(len(world.encoded))
    stage.take()

    every = UsageTable()
    every.take(world.encoded, stage.tables.unit_of)
    assert stage.tables.ledgers == world.replayed().ledgers
    found, wanted = (
        {name: views_of(name, rows) for name, rows in each.items()}
        for each in (stage.tables.usage, every.rows)
    )
    assert found == wanted


@pytest.fixture
def owned() -> tuple[Stage, World]:
    """Return a stage whose reader skips the partition."""
    world = opened(**BASIC)
    for _ in range(5):
        world.now += 1000
        world.ask("pure:0.01")
    stage = Stage(world.encoded, world, 1000)
    stage.commit(2)
    stage.refold()
    stage.read(2)
    assert not stage.left
    stage.read(100)
    assert stage.left
    return stage, world


def test_local_decisions_are_not_read_once_the_reader_has_reached_them(
    owned: tuple[Stage, World],
) -> None:
    stage, world = owned
    stage.commit(2)
    (taken,) = stage.own.take().values()
    assert [each.value for each in taken] == world.log[3:5]
    assert stage.own.read_on() == {}


def test_a_dropped_partition_is_read_from_its_last_taken_decision(
    owned: tuple[Stage, World],
) -> None:
    stage, _ = owned
    stage.commit(2)
    stage.take()
    stage.drop()
    assert stage.own.read_on() == {0: stage.log[4].decided_at}
    assert stage.own.read_on() == {}


def test_reading_resumes_from_the_first_waiting_decision(owned: tuple[Stage, World]) -> None:
    stage, _ = owned
    stage.commit(2)
    stage.own.halted(0, RuntimeError())
    assert stage.own.read_on() == {0: stage.log[3].decided_at}
    assert stage.own.take() == {}


def test_returned_decisions_are_read_from_the_log(owned: tuple[Stage, World]) -> None:
    stage, _ = owned
    stage.commit(2)
    stage.own.give_back(stage.own.take())
    stage.commit(1)
    assert stage.own.take() == {}
    assert stage.own.read_on() == {0: stage.log[3].decided_at}
