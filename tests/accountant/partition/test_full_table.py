"""A partition that remembers as many ids as it may."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from accountant.partition.decide import decide
from accountant.partition.ids import IdTable
from accountant.records.inputs import Input
from accountant.records.outcomes import Outcome
from accountant.replay.replay import state_rows
from accountant.times import from_iso
from tests.accountant.world import START, WINDOW, World, code

BASIC = {"filter": "basic", "epsilon": "1", "delta": "0"}


def filled(most_ids: int) -> tuple[World, list[bytes]]:
    """Return a world whose table is full, and its requests, ten seconds apart."""
    world, bodies = World(most_ids=most_ids), list[bytes]()
    world.open(**BASIC)
    for _ in range(most_ids - 1):
        bodies.append(world.request("pure:0.001"))
        assert code(world.send("requests", bodies[-1])) == "granted"
        world.now += 10_000
    return world, bodies


def test_a_table_full_of_ids_raises_the_floor_but_spares_the_last_minute() -> None:
    world, bodies = filled(20)
    # 20 ids are remembered, the newest 10 s old: the oldest tenth makes room.
    floor = world.decisions[-1].floor
    assert code(world.ask("pure:0.001")) == "granted"
    assert world.decisions[-1].floor > floor
    assert code(world.send("requests", bodies[0])) == "expired"
    assert code(world.send("requests", bodies[-1])) == "repeated"
    # Now all within one minute: nothing may be forgotten, so nothing more is taken.
    for _ in range(40):
        last = world.ask("pure:0.001")
        world.now += 100
    assert (last.outcome, code(last)) == (Outcome.REFUSED, "overloaded")
    assert (last.sequence, last.totals, last.cost) == (None, None, None)
    body = world.log[-1]
    assert b"overloaded" in body
    world.now += 120_000
    assert code(world.ask("pure:0.001")) == "granted"
    assert state_rows(world.replayed()) == world.rows()


def test_an_id_that_its_own_request_would_forget_is_expired() -> None:
    world, _ = filled(20)
    oldest = world.request("pure:0.001", request_id=world.new_id(START + 1))
    assert from_iso(world.decisions[-1].floor) < START
    # To make room for it, ids are forgotten up to a time after its own.
    assert code(world.send("requests", oldest)) == "expired"
    assert from_iso(world.decisions[-1].floor) > START
    assert world.ledger().mechanisms == 19


def test_undoing_a_decision_restores_the_ids_that_it_forgot() -> None:
    world, _ = filled(20)
    draft, now = world.draft, world.now
    record = Input("requests", draft.next["requests"], None, world.request("pure:0.001"), now)
    mark = draft.mark()
    first = decide(draft, record, now)
    assert draft.floor > mark[3]
    draft.rewind(mark)
    assert decide(draft, record, now).value == first.value


@pytest.mark.parametrize("window", [WINDOW, 61_000])  # the latter is the shortest there is
def test_a_table_that_stays_full_is_counted_once_a_second(
    monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    counted = []
    count = IdTable.count_by_second

    def counting(ids: IdTable, floor: int) -> Counter[int]:
        counted.append(floor)
        return count(ids, floor)

    monkeypatch.setattr(IdTable, "count_by_second", counting)
    world = World(most_ids=20, window=window)
    world.open(**BASIC)
    while code(world.ask("pure:0.001")) == "granted":
        world.now += 10
    counted.clear()
    world.now = world.now // 1000 * 1000
    for _ in range(300):
        world.now += 10
        assert code(world.ask("pure:0.001")) == "overloaded"
    assert 1 <= len(counted) <= 4 * 3  # before and after its floor rises, and once more


def test_a_request_refused_as_overloaded_may_be_sent_again() -> None:
    world = World(most_ids=3)
    world.open(**BASIC)
    world.ask()
    world.ask()
    body = world.request()
    assert code(world.send("requests", body)) == "overloaded"
    assert code(world.send("requests", body)) == "overloaded"
    assert code(world.ask(dataset="nowhere")) == "overloaded"


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_a_full_table_decides_the_same_for_any_batching(batch: int) -> None:
    world = World(most_ids=50, batch=batch)
    world.open(**BASIC)
    chance = random.Random(7)
    for i in range(600):
        world.now += chance.randrange(500 if i // 100 % 2 else 4000)
        issued = world.now - chance.choice([0, 10, 100, 1000, 90_000])
        world.ask("pure:0.0001", request_id=world.new_id(issued))
    reference = World(most_ids=50)
    for decision, value in zip(world.decisions[1:], world.log[1:], strict=True):
        assert decision.source is not None
        reference.now = max(reference.now, from_iso(decision.decided_at))
        topic = "admin" if decision.source.topic == "admin" else "requests"
        reference.send(topic, bytes(decision.request))
        assert reference.log[-1] == value
    codes = {code(decision) for decision in world.decisions}
    assert {"granted", "overloaded", "expired"} <= codes
