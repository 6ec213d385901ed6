"""Pace: so much in each period from the limit's making, by the ledger's own clock."""

from __future__ import annotations

from accountant.partition.draft import Draft
from accountant.partition.operate import reset_clock
from accountant.times import iso
from tests.accountant.partition.circle import sound
from tests.accountant.partition.division import (
    ask_for_outcome,
    ask_for_record,
    days,
    divide,
    divided,
    level_rows,
    limit,
)
from tests.accountant.world import START, World, code
from tests.every_case import check_rows

DAILY = {"part": "0.1", "period": "P1D"}
WHOLE = '{"dataset":"census","scope":"dataset","name":""}'


def set_back(world: World, at: int) -> None:
    world.commit()
    draft = Draft(world.state)
    encoded = reset_clock(draft, at, "the clock was ahead")
    draft.absorb()
    world.log.append(encoded.value)
    world.decisions.append(encoded.decision)
    world.draft = Draft(world.state)
    world.now = at + world.genesis.skew_ms + 1  # earlier ids have expired


def test_a_period_ends_to_the_millisecond() -> None:
    world = divided()
    divide(world, "dataset", pace=DAILY)
    assert ask_for_outcome(world, "ana", "0.1") == "granted"
    world.now = START + days(1) - 1
    assert ask_for_outcome(world, "cy", "0.1") == "dataset pace"
    world.now += 1
    assert ask_for_outcome(world, "cy", "0.1") == "granted"
    assert sound(world)


def test_two_periods_meet_at_a_boundary_and_three_do_not() -> None:
    world = divided()
    divide(world, "dataset", pace=DAILY)
    world.now = START + days(1) - 1
    assert ask_for_outcome(world, "ana", "0.1") == "granted"
    world.now += 1
    assert [ask_for_outcome(world, "ana", "0.1") for _ in range(2)] == ["granted", "dataset pace"]


def test_a_refused_request_moves_no_period() -> None:
    world = divided()
    divide(world, "dataset", pace=DAILY)
    ask_for_record(world, "ana", "0.1")
    before = level_rows(world)[WHOLE]
    world.now += days(3)
    refused = ask_for_record(world, "ana", "0.2")
    # A whole period has no room for it: waiting is not offered.
    assert refused["left_at"] == [
        {"scope": "dataset", "pace_left": {"epsilon": "0.1", "delta": "0"}}
    ]
    assert level_rows(world)[WHOLE] == before
    assert ask_for_record(world, "ana", "0.05")["levels"][0]["window"] == 3


def test_each_analyst_under_a_default_has_a_separate_pace() -> None:
    world = divided()
    divide(world, "each", "blue", pace=DAILY)
    assert [ask_for_outcome(world, caller, "0.1") for caller in ("ana", "ben", "ana", "cy")] == [
        *("granted", "granted", "each/blue pace", "granted")
    ]
    moved = ask_for_record(world, "cy", "0.1")
    assert "levels" not in moved
    assert sound(world)


def test_another_part_keeps_the_period_and_its_use() -> None:
    world = divided()
    divide(world, "dataset", pace=DAILY)
    ask_for_record(world, "ana", "0.1")
    world.now += days(0.5)
    divide(world, "dataset", pace={"part": "0.15", "period": "P1D"})
    assert ask_for_outcome(world, "ana", "0.1") == "dataset pace"
    assert ask_for_outcome(world, "ana", "0.05") == "granted"
    assert sound(world)


SCOPES = (("dataset", None), ("team", "blue"), ("analyst", "ana"), ("each", "blue"))


def test_a_pace_removed_and_set_again_continues_its_period() -> None:
    def check_case(between: str, scope: str, name: str | None) -> None:
        if (between, scope) == ("without a pace", "dataset"):
            return  # a dataset's limit has nothing else
        world = divided()
        divide(world, scope, name, pace=DAILY)
        assert ask_for_outcome(world, "ana", "0.06") == "granted"
        world.now += days(0.5)
        if between == "removed":
            assert code(limit(world, scope, name)) == "limit_removed"
        elif between == "without a pace":
            divide(world, scope, name, part="0.9")
        divide(world, scope, name, pace=DAILY)
        assert ask_for_outcome(world, "ana", "0.05").endswith("pace")
        assert ask_for_outcome(world, "ana", "0.04") == "granted"
        world.now = START + days(1)
        assert ask_for_outcome(world, "ana", "0.1") == "granted"
        assert sound(world)

    check_rows(
        check_case,
        [
            (between, scope, name)
            for between in ["removed", "without a pace", "set again"]
            for scope, name in SCOPES
        ],
    )


def test_a_running_period_ends_when_one_of_each_length_would() -> None:
    def check_case(lengths: tuple[int, ...], ends: int, scope: str, name: str | None) -> None:
        world = divided()
        divide(world, scope, name, pace={"part": "0.1", "period": f"P{lengths[0]}D"})
        assert ask_for_outcome(world, "ana", "0.06") == "granted"
        for length in lengths[1:]:
            world.now += days(0.1)
            assert code(limit(world, scope, name)) == "limit_removed"
            divide(world, scope, name, pace={"part": "0.1", "period": f"P{length}D"})
        refused = ask_for_record(world, "ana", "0.05")
        assert refused["outcome"] == "refused"
        assert refused["left_at"][0]["more_at"] == iso(START + days(ends))
        assert ask_for_outcome(world, "ana", "0.04") == "granted"
        world.now = START + days(ends) - 1
        assert ask_for_outcome(world, "ana", "0.01").endswith("pace")
        world.now += 1
        assert ask_for_record(world, "ana", "0.1")["levels"][0]["window"] == 1
        world.now += days(lengths[-1])
        assert ask_for_record(world, "ana", "0.1")["levels"][0]["window"] == 2
        assert sound(world)

    check_rows(
        check_case,
        [
            (lengths, ends, scope, name)
            for lengths, ends in [
                ((1, 7), 7),
                ((7, 1), 7),
                ((1, 7, 1), 7),
                ((7, 1, 2), 7),
                ((1, 2, 3), 3),
                ((2, 1, 2), 2),
            ]
            for scope, name in SCOPES
        ],
    )


def test_use_under_a_default_counts_in_a_period_that_is_still_running() -> None:
    world = divided()
    divide(world, "each", "blue", pace=DAILY)
    assert ask_for_outcome(world, "ana", "0.1") == "granted"
    world.now = START + days(1.5)
    assert ask_for_outcome(world, "ben", "0.1") == "granted"
    divide(world, "each", "blue", pace={"part": "0.1", "period": "P7D"})
    # ana's period was over, ben's runs for seven days now
    assert [ask_for_outcome(world, caller, "0.1") for caller in ("ana", "ben")] == [
        "granted",
        "each/blue pace",
    ]
    world.now = START + days(8)
    assert [ask_for_outcome(world, caller, "0.1") for caller in ("ana", "ben")] == [
        "granted",
        "granted",
    ]
    assert sound(world)


def test_a_clock_reset_moves_every_pace_to_its_period_with_the_latest_use() -> None:
    world = divided()
    divide(world, "dataset", pace=DAILY)
    divide(world, "each", "blue", pace=DAILY)
    world.now = START + days(5.5)
    assert ask_for_outcome(world, "ana", "0.08") == "granted"
    set_back(world, START + days(2.5))
    assert ask_for_outcome(world, "ana", "0.03") == "dataset pace"
    moved = ask_for_record(world, "ana", "0.01")["levels"]
    assert [each["window"] for each in moved] == [2, 2]
    assert [each["paced"]["epsilon"] for each in moved] == ["0.09", "0.09"]
    world.now = START + days(3)
    assert ask_for_record(world, "ana", "0.1")["levels"][0]["window"] == 3
    assert sound(world)


def test_use_carried_over_a_clock_reset_ends_with_the_period_of_the_reset() -> None:
    world = divided()
    divide(world, "dataset", pace=DAILY)
    world.now = START + days(5.5)
    assert ask_for_outcome(world, "ana", "0.1") == "granted"
    set_back(world, START + days(2.5))
    set_back(world, START + days(1.5))
    assert ask_for_outcome(world, "ana", "0.1") == "dataset pace"
    world.now = START + days(2)
    assert ask_for_outcome(world, "ana", "0.1") == "granted"
    assert sound(world)


def test_a_reset_to_before_the_pace_was_made_counts_backwards() -> None:
    world = divided()
    world.now = START + days(5)
    divide(world, "dataset", pace=DAILY)
    assert ask_for_outcome(world, "ana", "0.1") == "granted"
    set_back(world, START + days(2.5))
    assert ask_for_outcome(world, "ana", "0.1") == "dataset pace"
    world.now = START + days(3)
    assert ask_for_record(world, "ana", "0.1")["levels"][0]["window"] == -2
    assert sound(world)
