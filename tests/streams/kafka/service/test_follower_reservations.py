"""Open reservations in a process that follows a ledger on Kafka, fed with rows and decisions."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest

from accountant.amounts import INFINITE, Units
from accountant.limits.reserved_totals import Sums
from accountant.records.header import decode_header
from accountant.records.request_names import decode_request_details
from accountant.records.reservation_rows import ReservationRow
from accountant.records.state_rows import decode_row
from accountant.reservations.reservation import Reservation
from accountant.views.reservation_follower import ReservationFollower
from tests.accountant.reservations.loads import Load
from tests.accountant.reservations.scene import HOUR, Scene
from tests.accountant.reservations.test_reservations_model import Life
from tests.accountant.world import code
from tests.nightly import rounds
from tests.streams.kafka.service.followed_log import OWN, FollowedLog

UNITS: Final = 2
"""By how many units of 1e-40 an amount may be off that was read from a decision's rounded cost."""


class FollowedLife(Life):
    """A partition whose commits are followed: from the first on, and from others on."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.followers = [FollowedLog()]
        self.followers[0].read(self.log)
        self.compared = Counter[str]()

    def commit(self) -> None:
        known = len(self.log)
        super().commit()
        for follower in self.followers:
            follower.read(self.log[known:])
        if self.chance.random() < 0.06:
            self.start_another()
        if self.chance.random() < 0.2:
            for follower in self.followers:
                self.check_followed(follower)

    def start_another(self) -> None:
        """Start one as a gateway does: all rows, then decisions from before and after them."""
        another = FollowedLog()
        late = self.chance.choice([0, 1, 30])  # the rows are that much newer than the start
        behind = max(0, len(self.log) - self.chance.choice([0, 0, 1, 50, 1_000]))
        another.read(self.log[behind : len(self.log) - late])
        another.read_rows(sorted(self.rows.items(), key=lambda each: each[0] != OWN))
        another.read(self.log[behind:])
        self.followers = [self.followers[0], *self.followers[-2:], another]

    def check_followed(self, follower: FollowedLog) -> None:
        for name, view in follower.views.items():
            found = follower.limits.reservations(view)
            expected = {row.grant: row for row in self.state.reservations.open_of(name)}
            assert {row.grant for row in found.rows} == expected.keys()
            assert [row.sequence for row in found.rows] == sorted(
                row.sequence for row in found.rows
            )
            for row in found.rows:
                self.check_row(row, expected[row.grant], found.request_ids.get(row.grant))
                assert follower.limits.reservation(name, row.grant) == row
                assert follower.limits.reservation("other", row.grant) is None
            for row in self.state.reservations.of(name).values():
                assert row.is_open or follower.limits.reservation(name, row.grant) is None

    def check_row(self, row: Reservation, expected: Reservation, request_id: str | None) -> None:
        same = ("dataset", "sequence", "partition_sequence", "analyst", "via", "purpose", "claim")
        for name in (*same, "stage", "deadline", "reserved_at", "sums"):
            assert getattr(row, name) == getattr(expected, name), name
        assert near(row.held, expected.held)
        charges = {each.key: each for each in row.charges}
        assert charges.keys() == {each.key for each in expected.charges}
        for each in expected.charges:
            other = charges[each.key]
            assert near(other.counted, each.counted)
            assert near(other.period_used, each.period_used)
            assert (other.counted_since, other.begins_at) == (each.counted_since, each.begins_at)
        self.compared[row.stage] += 1
        self.compared["limits"] += bool(row.charges)
        if request_id is None:
            self.compared["by its row"] += 1
            return
        decision = decode_header(self.log[row.partition_sequence])
        assert request_id == decode_request_details(decision.request).request_id


def near(found: Sums, expected: Sums) -> bool:
    return len(found) == len(expected) and all(map(_near, found, expected))


def _near(one: Units, other: Units) -> bool:
    return one == other or (INFINITE not in (one, other) and abs(int(one) - int(other)) <= UNITS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(rounds(3, 60)))
def test_followers_know_the_open_reservations_of_the_ledger(seed: int) -> None:
    life = FollowedLife(seed)
    load, batch = Load(life.chance, life.model, datasets=5), 1
    for _ in range(1_250):
        life.decide(load.next())
        batch -= 1
        if batch <= 0:
            life.commit()
            batch = life.chance.choice([1, 1, 2, 5, 20])
        if life.chance.random() < 0.003:
            life.reset_clock(load.set_back())
    life.commit()
    for follower in life.followers:
        life.check_followed(follower)
    missing = {"reserved", "begun", "limits", "by its row"} - life.compared.keys()
    assert not missing, life.compared


def followed(scene: Scene) -> list[Reservation]:
    follower = FollowedLog()
    follower.read(scene.log)
    return follower.limits.reservations(follower.views["census"]).rows  # type: ignore[return-value]


def test_a_reservation_that_was_dropped_when_it_was_final_is_not_listed() -> None:
    scene = Scene()
    scene.do("reserve")
    scene.tick(2 * HOUR)
    assert [row.stage for row in followed(scene)] == ["reserved"]  # no decision has dropped it yet
    scene.ask("pure:0.01")
    assert followed(scene) == []


def test_an_older_row_opens_no_reservation_again() -> None:
    scene, follower = Scene(), ReservationFollower()
    scene.do("reserve")
    rows = [decode_row(value) for key, value in scene.rows() if b'"grant":"' in key]
    scene.do("void")
    for value in scene.log:
        follower.take_line(decode_header(value), value, scene.grant, ())
    (row,) = rows
    assert isinstance(row, ReservationRow)
    follower.take_row(row)
    assert follower.of("census") == []


def test_what_an_owner_voids_comes_back_under_a_default() -> None:
    scene = Scene()
    scene.member("ana", "analyst", team="red")
    scene.limit("each", "red", part="0.5")
    scene.do("reserve")
    assert code(scene.step("void", analyst="owner")) == "voided"
    follower = FollowedLog()
    follower.read(scene.log)
    (level,) = follower.limits.budget(follower.views["census"], "ana").levels
    assert (level.used, level.held) == ({"epsilon": "0", "delta": "0"}, None)


def test_a_gateway_says_what_reservations_hold_of_a_limit_and_its_period() -> None:
    scene = Scene()
    scene.member("ana", "analyst", team="red")
    scene.limit("team", "red", part="0.5", pace={"part": "0.4", "period": "P1D"})
    scene.ask("pure:0.05")
    scene.do("reserve", "begin", "reserve")
    follower = FollowedLog()
    follower.read(scene.log)
    (level,) = follower.limits.budget(follower.views["census"], "ana").levels
    assert level.pace is not None
    held = {"epsilon": "0.2", "delta": "0"}
    assert (level.used, level.held, level.held_ratio) == (
        {"epsilon": "0.25", "delta": "0"},
        held,
        0.4,
    )
    assert (level.pace.held, level.pace.held_ratio) == (held, 0.5)
    assert follower.limits.levels(follower.views["census"]) == [level]
