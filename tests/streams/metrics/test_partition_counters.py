"""Counts of one dataset and of all, and the cost of reading them."""

from __future__ import annotations

import threading
from types import FrameType
from typing import Any

import pytest

from accountant.partition import Partition
from accountant.partition.draft import genesis_decision
from accountant.partition.key_hash import partition_of
from accountant.records import Genesis
from accountant.replay.replay import Replay
from accountant.views.usage import views_of
from streams.errors import Unavailable
from streams.metrics.live_ledgers import LiveLedgers
from streams.metrics.partition_counters import requests_of
from streams.metrics.snapshot import MetricsSnapshot
from tests.patience import PATIENCE_S
from tests.streams.clock import TestClock
from tests.streams.gateway.records import opening, request
from tests.streams.metrics.test_live_ledgers import commit, live_views, partition
from tests.streams.steps import steps


def one_of(clock: TestClock, number: int, partitions: int) -> Partition:
    genesis = Genesis("accountant", number, partitions, 3_600_000, 300_000)
    refold = Replay(genesis)
    refold.take_decision(genesis_decision(genesis, clock.now()).value)
    return refold.finish()


def name_in(number: int, partitions: int, stem: str) -> str:
    """Return a name whose partition is the one of that number."""
    names = (f"{stem}-{i}" for i in range(1_000))
    return next(name for name in names if partition_of(name.encode(), partitions) == number)


def counted(made: LiveLedgers, name: str) -> tuple[dict[str, int], dict[str, int]]:
    """Return counts of one dataset by outcome and by reason, picked from those of all."""
    outcomes, reasons = dict[str, int](), dict[str, int]()
    for (dataset, outcome, reason), count in made.requests().items():
        if dataset == name:
            outcomes[outcome] = outcomes.get(outcome, 0) + count
            if reason:
                reasons[reason] = reasons.get(reason, 0) + count
    return outcomes, reasons


def test_counts_of_one_dataset_are_those_among_all(clock: TestClock) -> None:
    made, states = LiveLedgers(clock), [one_of(clock, number, 2) for number in range(2)]
    for state in states:
        made.replayed(state, 0.1)
    names = [name_in(number, 2, "open") for number in range(2)]
    late = name_in(0, 2, "late")
    commit(made, states[0], clock, request(clock, dataset=late))
    big = {"type": "pure", "epsilon": "5"}
    for state, name in zip(states, names, strict=True):
        again = request(clock, dataset=name)
        commit(made, state, clock, opening(clock, name), again, again)
        commit(made, state, clock, request(clock, dataset=name, claim=big))
        commit(made, state, clock, request(clock, dataset=name, unit="household"))
    # The other partition is asked by mistake, and a name is opened that was refused before.
    commit(made, states[1], clock, *[request(clock, dataset=names[0]) for _ in range(3)])
    commit(made, states[0], clock, opening(clock, late), request(clock, dataset=late))
    for name in (*names, late):
        shown = live_views(made).dataset(name)
        assert shown is not None
        assert (shown.outcomes, shown.reasons) == counted(made, name)
    first = live_views(made).dataset(names[0])
    assert first is not None
    assert first.outcomes == {"opened": 1, "granted": 1, "repeated": 1, "refused": 2}
    assert first == live_views(made).datasets()[names[0]]


def test_settled_names_are_counted_once(clock: TestClock) -> None:
    made, states = LiveLedgers(clock), [one_of(clock, number, 2) for number in range(2)]
    wrong = name_in(1, 2, "elsewhere")
    made.replayed(states[0], 0.1)
    for number in range(1, 4):
        commit(made, states[0], clock, request(clock, dataset=wrong), b"{")
        dead = made.snapshot().partitions[0].dead_letters
        assert (dead["wrong_partition"], dead["undecodable"]) == (number, number)
        assert made.requests()["", "invalid", "wrong_partition"] == number
        if number == 2:
            made.dropped(0, Unavailable("away"))
            made.replayed(states[0], 0.1)


def with_datasets(clock: TestClock, count: int) -> LiveLedgers:
    """Return one that has so many datasets open, with grants and refusals of each."""
    made, state = LiveLedgers(clock, usage=True), partition(clock)
    made.replayed(state, 0.1)
    big = {"type": "pure", "epsilon": "5"}
    for i in range(count):
        name = f"d{i}"
        one, two = request(clock, dataset=name), request(clock, dataset=name, claim=big)
        commit(made, state, clock, opening(clock, name), one, two)
    made.requests()
    live_views(made).dataset("d0")
    return made


@pytest.mark.parametrize(
    "ask",
    [
        lambda made: live_views(made).dataset("d0"),
        lambda made: views_of("d0", made.rows("d0")),
        lambda made: made._counters[0].view(),
    ],
    ids=["dataset", "usage", "partitions"],
)
def test_counts_of_one_dataset_do_not_slow_down_with_the_others(clock: TestClock, ask: Any) -> None:
    few, many = (with_datasets(clock, count) for count in (5, 200))
    ask(few)  # whatever the first of all calls makes is not to be counted
    assert steps(lambda: ask(few)) == steps(lambda: ask(many))


def test_counting_does_not_read_all_keys(clock: TestClock) -> None:
    """A batch causes work for the batch alone, whatever was counted and settled before."""
    spent = []
    for count in (5, 5, 200):
        made, state = LiveLedgers(clock), one_of(clock, 0, 2)
        made.replayed(state, 0.1)
        for i in range(count):
            open_here, wrong = name_in(0, 2, f"d{i}"), name_in(1, 2, f"d{i}")
            commit(made, state, clock, opening(clock, open_here), request(clock, dataset=wrong))
        made.requests()
        new = opening(clock, name_in(0, 2, "new")), request(clock, dataset=name_in(0, 2, "made-up"))
        commit(made, state, clock, *new)
        spent.append(steps(lambda made=made: (made._count(0), made._counters[0].view())))
    assert spent[1] == spent[2]  # the first one fills the caches


def test_a_commit_is_counted_while_a_reader_merges_its_copies(clock: TestClock) -> None:
    made, state = LiveLedgers(clock, usage=True, analysts=5), partition(clock)
    made.replayed(state, 0.1)
    commit(made, state, clock, opening(clock, epsilon="1000"), request(clock))
    bodies = [request(clock, analyst="bea") for _ in range(300)]
    waited: list[bool] = []

    def decide() -> None:
        for _ in range(2):  # the second makes a batch, and so is counted at once
            commit(made, state, clock, *bodies)

    def beside(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is requests_of.__code__ and not waited:
            waited.append(True)
            deciding = threading.Thread(target=decide)
            deciding.start()
            deciding.join(PATIENCE_S)
            waited[0] = deciding.is_alive()

    shown: list[MetricsSnapshot] = []
    reader = threading.Thread(target=lambda: shown.append(made.snapshot()))
    before = threading.gettrace()
    threading.settrace(beside)
    try:
        reader.start()
    finally:
        threading.settrace(before)  # type: ignore[arg-type]
    reader.join()
    assert waited == [False]
    # What was shown is as it was when the copies were made.
    (snapshot,) = shown
    assert sum(snapshot.requests.values()) == snapshot.partitions[0].sequence == 2
    assert snapshot.analysts is not None
    assert [(use.analyst, use.outcomes["granted"]) for use in snapshot.analysts] == [("ana", 1)]
