"""Limits with an end: over by the log's clock, for everybody at once, and never back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from accountant.times import iso
from accountant.views.limit_views import DatasetLimits, analyst_budget, scope_views
from tests.accountant.judged_life import SKEW, START, Body, Sent, hash_of
from tests.accountant.partition.test_outside_records import IDS, ask, member, outside, record
from tests.accountant.partition.test_outside_records import World as WorldOfRecords

LATER = 600_000
END = START + LATER


class World(WorldOfRecords):
    """A life whose clock a test moves."""

    def to(self, at: int) -> None:
        self.at = at

    def do(self, body: Body, expected: str) -> Body:
        return super().do({**body, "request_id": IDS.new(self.at)}, expected)

    def limit(
        self, scope: str, name: str | None = None, expected: str = "limit_set", **more: Any
    ) -> Body:
        named = {} if name is None else {"name": name}
        return self.do(record("limit", scope=scope, **named, **more), expected)

    def row_of(self, scope: str, name: str) -> dict[str, Any]:
        key = f'{{"dataset":"census","scope":"{scope}","name":"{name}"}}'.encode()
        found: dict[str, Any] = json.loads(self.life.rows[key])
        return found


def divided() -> World:
    world = World()
    world.do(member("ana", "red"), "member_set")
    world.do(member("ben", "blue"), "member_set")
    return world


def test_a_limit_refuses_until_its_end_and_then_the_default_holds() -> None:
    world = divided()
    world.limit("each", "red", part="0.3")
    said = world.limit("analyst", "ana", part="0.1", until=iso(END))
    assert said["limit"]["until"] == iso(END)
    world.do(ask("0.1"), "granted")
    world.to(END - 2)
    refused = world.do(ask("0.1"), "exhausted")
    assert refused["left_at"][-1]["until"] == iso(END)
    assert world.do(ask("0.2"), "granted")["levels"][0]["scope"] == "each"
    refused = world.do(ask("0.2"), "exhausted")
    assert (refused["level"]["scope"], "until" in refused["left_at"][-1]) == ("each", False)
    assert world.row_of("analyst", "ana")["rule"]["over"] is True
    world.life.finish()


def test_after_an_end_without_a_default_only_the_dataset_limits() -> None:
    world = divided()
    world.limit("team", "red", part="0.1", until=iso(END))
    world.do(ask("0.2"), "exhausted")
    world.to(END)
    assert "levels" not in world.do(ask("0.9"), "granted")
    world.life.finish()


def test_a_share_leaves_what_is_withheld_in_the_decision_that_reads_it() -> None:
    """Whoever asks first: the holder, a colleague, or another team."""
    for asker in ("ana", "ben", "carl"):
        world = divided()
        world.limit("team", "red", reserved="0.5", until=iso(END))
        world.limit("analyst", "ana", reserved="0.4", until=iso(END + LATER))
        world.limit("team", "blue", reserved="0.2", until=iso(END))
        world.do(ask("0.4", "carl"), "exhausted")
        world.to(END - 1)
        free = "0.6" if asker != "ana" else "1"
        world.do(ask(free, asker), "granted")
        world.do(ask("0.001", "carl"), "exhausted")
        world.life.finish()


def test_an_analysts_share_stays_reserved_after_the_end_of_its_teams() -> None:
    world = divided()
    world.limit("team", "red", reserved="0.5", until=iso(END))
    world.limit("analyst", "ana", reserved="0.4")
    world.to(END)
    world.do(ask("0.7", "ben"), "exhausted")
    world.do(ask("0.6", "ben"), "granted")
    world.do(ask("0.4", "ana"), "granted")
    world.life.finish()


def test_a_clock_that_is_set_back_brings_no_limit_back() -> None:
    """Also one that no decision on its dataset has read since its end."""
    world = divided()
    world.limit("team", "red", part="0.1", reserved="0.1", until=iso(END))
    world.limit("team", "blue", reserved="0.3", until=iso(END))
    other = {**record("open", policy={"filter": "basic", "epsilon": "1"}), "dataset": "other"}
    world.to(END)
    world.do(other, "opened")
    world.life.reset_clock(START + 10)
    world.life.kill()
    world.to(START + SKEW + 20)
    world.do(ask("1"), "granted")
    assert "limit" not in world.said
    assert world.row_of("team", "red")["rule"]["over"] is True
    world.life.finish()


def test_a_limit_may_be_set_after_the_clock_was_set_back() -> None:
    world = divided()
    world.to(END)
    world.do(ask("0.1"), "granted")
    world.life.reset_clock(START + 10)
    world.to(START + SKEW + 20)
    world.limit("team", "red", part="0.1", until=iso(END - 1_000))
    world.do(ask("0.2"), "exhausted")
    world.life.finish()


def test_the_clock_of_the_log_alone_ends_a_limit() -> None:
    """A machine whose clock is ahead decides by the time at which the input came."""
    world = divided()
    world.limit("team", "red", part="0.1", until=iso(END))
    said = world.life.decide(Sent.made(ask("0.2"), world.at + 1), clock=END + LATER)
    assert said["reason"] == "exhausted"
    world.life.finish()


@pytest.mark.parametrize("until", [START - 1, START + 5])
def test_an_end_that_has_passed_is_refused(until: int) -> None:
    world = divided()
    world.to(START + 4)
    world.limit("team", "red", "end_in_past", part="0.1", until=iso(until))
    world.do(ask("0.9"), "granted")
    world.life.finish()


def test_a_record_without_a_limit_has_no_end() -> None:
    world = divided()
    world.limit("team", "red", "invalid_field", until=iso(END))
    assert world.said["error"]["field"] == "until"
    world.life.finish()


def test_a_limit_that_is_set_again_has_the_usage_of_before_and_a_new_share() -> None:
    world = divided()
    world.limit("team", "red", part="0.5", reserved="0.5", until=iso(END))
    world.do(ask("0.3"), "granted")
    world.to(END)
    world.limit("team", "red", part="0.5", reserved="0.5")
    assert world.row_of("team", "red")["rule"]["shared_since"] == 2
    world.do(ask("0.3", "ben"), "exhausted")
    world.do(ask("0.3"), "exhausted")
    world.do(ask("0.2"), "granted")
    world.life.finish()


def test_an_ended_limit_can_be_removed_and_makes_room_for_others() -> None:
    world = divided()
    world.limit("team", "red", part="0.5", until=iso(END))
    world.to(END)
    world.limit("team", "red", "limit_removed")
    world.limit("team", "red", "unknown_limit")
    assert "limits" not in world.row
    world.life.finish()


def test_a_reservation_gives_nothing_back_to_a_share_that_has_ended() -> None:
    world = divided()
    world.limit("team", "red", part="0.5", reserved="0.5", until=iso(END))
    reserved = world.do(ask("0.3", reserve={"until": "PT12H"}), "reserved")
    assert reserved["levels"][0]["used"]["epsilon"] == "0.3"
    world.to(END)
    grant = {"grant": hash_of(world.life.log[-1]), "analyst": "ana"}
    step: Body = {**record("void", **grant)}
    step.pop("by")
    world.do(step, "voided")
    world.do(ask("1", "ben"), "granted")
    world.life.finish()


def test_a_release_made_elsewhere_cuts_no_share_that_has_ended() -> None:
    world = divided()
    world.limit("team", "red", reserved="0.6", until=iso(END))
    world.limit("team", "blue", reserved="0.3")
    world.to(END)
    assert "shares_cut" not in world.do(outside("0.5", team="red"), "recorded")
    world.life.finish()


def test_readers_see_the_end_before_a_decision_has() -> None:
    """Views, previews and copies of a moment after the end change nothing of the state."""
    world = divided()
    world.limit("team", "red", part="0.1", reserved="0.4", until=iso(END))
    state = world.life.state
    ledger = state.ledgers["census"]
    for at, shown, reserved in ((END - 1, 1, "0.6"), (END, 0, "1")):
        copy = state.levels.for_analyst("census", "ben", "blue", at)
        for levels in (state.levels, copy):
            limits = DatasetLimits(ledger, levels, at, state.resets)
            assert analyst_budget(limits, "ben", "blue").left["epsilon"] == reserved
        assert len(scope_views(DatasetLimits(ledger, state.levels, at, state.resets))) == shown
    assert state.levels.ends("census")
