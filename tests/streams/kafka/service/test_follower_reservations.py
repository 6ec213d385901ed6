"""Open reservations in a process that follows a ledger on Kafka, fed with rows and decisions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from accountant.replay.replay import StateMismatch
from accountant.reservations.reservation import Reservation
from tests.accountant.reservations.scene import HOUR, Scene
from tests.accountant.world import code
from tests.streams.kafka.service.followed_log import Gateway


def followed(scene: Scene) -> Sequence[Reservation]:
    gateway = Gateway(scene)
    gateway.read(scene.log)
    return gateway.limits.reservations("census").rows


def test_a_reservation_that_was_dropped_when_it_was_final_is_not_listed() -> None:
    scene = Scene()
    scene.do("reserve")
    scene.tick(2 * HOUR)
    assert [row.stage for row in followed(scene)] == ["reserved"]  # no decision has dropped it yet
    scene.ask("pure:0.01")
    assert list(followed(scene)) == []


def test_an_older_row_opens_no_reservation_again() -> None:
    scene = Scene()
    scene.do("reserve")
    older = {key: value for key, value in scene.rows() if b'"grant":"' in key}
    assert len(older) == 1
    scene.do("void", "reserve")
    gateway, rows = Gateway(scene), dict(scene.rows())
    (key,) = [key for key in rows if b'"grant":"' in key]
    del rows[key]
    with pytest.raises(StateMismatch):
        gateway.read_rows({**rows, **older}.items())
    gateway.read_rows(scene.rows())
    (row,) = gateway.limits.reservations("census").rows
    assert row.grant == scene.grant


def test_what_an_owner_voids_comes_back_under_a_default() -> None:
    scene = Scene()
    scene.member("ana", "analyst", team="red")
    scene.limit("each", "red", part="0.5")
    scene.do("reserve")
    assert code(scene.step("void", analyst="owner")) == "voided"
    gateway = Gateway(scene)
    gateway.read(scene.log)
    budget = gateway.limits.budget("census", "ana")
    assert budget is not None
    (level,) = budget.levels
    assert (level.used, level.held) == ({"epsilon": "0", "delta": "0"}, None)


def test_a_gateway_says_what_reservations_hold_of_a_limit_and_its_period() -> None:
    scene = Scene()
    scene.member("ana", "analyst", team="red")
    scene.limit("team", "red", part="0.5", pace={"part": "0.4", "period": "P1D"})
    scene.ask("pure:0.05")
    scene.do("reserve", "begin", "reserve")
    gateway = Gateway(scene)
    gateway.read(scene.log)
    budget = gateway.limits.budget("census", "ana")
    assert budget is not None
    (level,) = budget.levels
    assert level.pace is not None
    held = {"epsilon": "0.2", "delta": "0"}
    assert (level.used, level.held, level.held_ratio) == (
        {"epsilon": "0.25", "delta": "0"},
        held,
        0.4,
    )
    assert (level.pace.held, level.pace.held_ratio) == (held, 0.5)
    assert gateway.limits.levels("census") == [level]
