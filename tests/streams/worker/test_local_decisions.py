"""Local decisions follow those that were read, without a gap."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant.partition import Partition
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.inputs import Input
from accountant.views.follow import ViewFolder, runs
from accountant.views.usage import views_of
from streams.processing.observers import Committed
from streams.worker.local_decisions import LocalDecisions
from tests.accountant.histories import worlds
from tests.accountant.views.test_datasets import BASIC
from tests.accountant.world import World, opened
from tests.nightly import examples


class Stage:
    """A log that grows, its reader, and a view that is fed by both as the read side feeds it."""

    def __init__(self, log: list[EncodedDecision], world: World, most_waiting: int) -> None:
        self.log = log
        self.partition = Partition(world.genesis)
        self.own = LocalDecisions(most_waiting)
        self.following = ViewFolder({}, {})
        self.committed = 1  # the genesis
        self.position = 0
        self.left = False
        self.owns = False

    def feed(self, decided: list[EncodedDecision]) -> None:
        for dataset, run in runs(decided).items():
            self.following.take_run(dataset, run)

    def move_on(self) -> None:
        last = self.log[self.committed - 1]
        self.partition.sequence = last.partition_sequence
        self.partition.decided_at = last.decided_at

    def commit(self, count: int) -> None:
        new = self.log[self.committed : self.committed + count]
        self.committed += len(new)
        self.move_on()
        if new and self.owns:
            record = Input("requests", 0, None, None, 0)
            self.own.committed(Committed(self.partition, [(record, each) for each in new], 0.0))

    def refold(self) -> None:
        if not self.owns:
            self.own.replayed(self.partition, 0.0)
            self.owns = True

    def drop(self) -> None:
        self.own.dropped(0, None)
        self.owns = False

    def read(self, most: int) -> None:
        for since in self.own.read_on().values():
            self.left = False
            self.position = next(i for i, each in enumerate(self.log) if each.decided_at >= since)
        if self.left:
            return
        got = self.log[self.position : min(self.committed, self.position + most)]
        if got:
            self.position += len(got)
            self.feed(got)
            self.left = self.own.reach(0, got[-1].partition_sequence)

    def take(self) -> None:
        for decided in self.own.take().values():
            self.feed(list(decided))


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

    every = ViewFolder({}, {})
    for dataset, run in runs(world.encoded).items():
        every.take_run(dataset, run)
    assert stage.following.budgets == every.budgets
    found, wanted = (
        {name: views_of(name, rows) for name, rows in each.usage.items()}
        for each in (stage.following, every)
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
