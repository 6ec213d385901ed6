"""Which decisions a refold with rows must read for the ids that are still accepted."""

from __future__ import annotations

import pytest

from accountant.replay.replay import Replay
from accountant.times import from_iso
from tests.accountant.world import SKEW, START, WINDOW, World, code, opened


def read_back(world: World) -> int:
    """Refold from the rows and from the decisions since `start`; return how many were left out."""
    rows = world.rows()
    refold = Replay(world.genesis)
    for key, value in rows:
        refold.take_row(key, value)
    start = refold.start
    assert start is not None
    needed = [
        value
        for value, decision in zip(world.log, world.decisions, strict=True)
        if from_iso(decision.decided_at) >= start
    ]
    for value in needed:
        refold.take_decision(value)
    world.state = refold.finish()
    world.commit()
    return len(world.log) - len(needed)


@pytest.mark.parametrize("ahead", [0, 1, SKEW // 2, SKEW])
def test_an_id_issued_ahead_is_stored_until_the_floor_reaches_it(ahead: int) -> None:
    world = opened()
    world.now += WINDOW  # the opening is older than anything that is needed
    body = world.request(request_id=world.new_id(world.now + ahead))
    decided_at = world.now
    assert code(world.send("requests", body)) == "granted"
    world.now += WINDOW + ahead - 1  # the last moment at which the id is accepted
    world.ask()
    assert world.state.floor == decided_at + ahead - 1
    assert read_back(world) == 2, "the genesis and the opening are left out, and nothing else"
    spent = world.ledger().mechanisms
    assert code(world.send("requests", body)) == "repeated"
    assert world.ledger().mechanisms == spent
    world.now += 1
    world.ask()
    assert code(world.send("requests", body)) == "expired"


def test_a_refold_begins_a_skew_before_the_floor() -> None:
    world = opened()
    world.now += 3 * WINDOW
    world.ask()
    refold = Replay(world.genesis)
    for key, value in world.rows():
        refold.take_row(key, value)
    assert world.state.floor == START + 2 * WINDOW
    assert refold.start == world.state.floor - SKEW
