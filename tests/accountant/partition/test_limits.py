"""Limits: who is refused by which level, what counts on, and what moves nothing."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from accountant.partition.decide import decide
from accountant.records import Source
from accountant.records.inputs import Input
from accountant.records.limit_records import scope_alert_id
from tests.accountant.partition.circle import BASIC, enrol, sound
from tests.accountant.partition.division import (
    ask_for_outcome,
    ask_for_record,
    divide,
    divided,
    level_rows,
    limit,
)
from tests.accountant.world import code
from tests.every_case import check_rows
from tests.faults.oracle.texts import at_text

BLUE = '{"dataset":"census","scope":"team","name":"blue"}'
ANA_UNDER_BLUE = '{"dataset":"census","scope":"each","team":"blue","name":"ana"}'
ZCDP = {"filter": "zcdp", "rho": "0.02"}


def test_a_team_uses_its_part_and_no_more() -> None:
    world = divided()
    divide(world, "team", "blue", part="0.3")
    said_to = [
        ask_for_outcome(world, caller, "0.1")
        for caller in ("ana", "ben", "ana", "ben", "cy", "eve", "dan", "cy")
    ]
    assert said_to == ["granted"] * 3 + ["team/blue limit"] + ["granted"] * 4
    assert sound(world)


def test_each_analyst_has_the_default_and_an_explicit_limit_replaces_it() -> None:
    world = divided()
    divide(world, "each", "blue", part="0.1")
    divide(world, "analyst", "ben", part="0.2")
    assert ask_for_outcome(world, "ana", "0.1") == "granted"
    assert ask_for_outcome(world, "ana", "0.01") == "each/blue limit"
    assert ask_for_outcome(world, "ben", "0.2") == "granted"
    assert ask_for_outcome(world, "ben", "0.01") == "analyst/ben limit"
    assert ask_for_outcome(world, "cy", "0.3") == "granted"
    assert list(level_rows(world)) == [
        '{"dataset":"census","scope":"analyst","name":"ben"}',
        '{"dataset":"census","scope":"each","name":"blue"}',
        ANA_UNDER_BLUE,
    ]
    assert sound(world)


def test_an_explicit_limit_with_only_a_pace_replaces_the_default_too() -> None:
    world = divided()
    divide(world, "each", "blue", part="0.1")
    divide(world, "analyst", "ana", pace={"part": "0.5", "period": "P1D"})
    assert ask_for_outcome(world, "ana", "0.4") == "granted"
    assert code(limit(world, "analyst", "ana")) == "limit_removed"
    assert ask_for_outcome(world, "ana", "0.1") == "granted"
    assert ask_for_outcome(world, "ana", "0.1") == "each/blue limit"


def test_a_limit_with_its_own_filter_counts_in_the_sums_of_that_filter() -> None:
    world = divided({**BASIC, "epsilon": "5"})
    reported = divide(world, "analyst", "ana", policy={**ZCDP})
    assert reported["policy"] == {**ZCDP, "delta_for_claims": "0"}
    assert reported["budget"] == {"rho": "0.02", "delta": "0"}
    moved = ask_for_record(world, "ana", "0.1")["levels"]
    assert moved[0]["totals"].keys() == {"rho", "delta"}
    assert ask_for_outcome(world, "ana", "0.3") == "analyst/ana limit"
    assert ask_for_record(world, "ana", "0.3")["fits"] == "pure:0.1734"
    assert ask_for_outcome(world, "ana", "0.1734") == "granted"
    assert sound(world)


def test_a_level_that_cannot_take_the_claim_says_so_before_any_that_has_no_room() -> None:
    world = divided({"filter": "zcdp", "rho": "1", "delta": "0"})
    divide(world, "team", "blue", part="0.0001")
    divide(world, "analyst", "ana", policy={"filter": "basic", "epsilon": "1"})
    refused = world.ask("zcdp:0.1", analyst="ana")
    assert code(refused) == "claim_not_accepted"
    assert refused.level is not None
    assert (refused.level.scope, refused.level.what) == ("analyst", "limit")
    assert (refused.fits, refused.left_at) == (None, ())
    assert refused.asked is not None
    assert sound(world)


def test_limits_are_checked_in_their_documented_order() -> None:
    world = divided()
    divide(world, "analyst", "ana", part="0.1", pace={"part": "0.05", "period": "P1D"})
    assert ask_for_outcome(world, "ana", "0.2") == "analyst/ana limit"
    assert ask_for_outcome(world, "ana", "0.07") == "analyst/ana pace"
    divide(world, "team", "blue", part="0.06", pace={"part": "0.01", "period": "P1D"})
    assert ask_for_outcome(world, "ana", "0.2") == "team/blue limit"
    assert ask_for_outcome(world, "ana", "0.05") == "team/blue pace"
    divide(world, "dataset", pace={"part": "0.04", "period": "P1D"})
    assert ask_for_outcome(world, "ana", "0.2") == "dataset pace"
    divide(world, "team", "red", reserved="0.9")
    assert ask_for_outcome(world, "ana", "0.2") == "dataset reserved"
    assert ask_for_outcome(world, "ana", "1.1") == "exhausted"
    assert ask_for_outcome(world, "ana", "0.01") == "granted"
    assert sound(world)


def test_a_refusal_moves_nothing_at_any_level() -> None:
    world = divided()
    divide(world, "dataset", pace={"part": "0.5", "period": "P1D"})
    divide(world, "team", "blue", part="0.3", reserved="0.2")
    divide(world, "each", "blue", part="0.1")
    ask_for_record(world, "ana", "0.05")
    before = level_rows(world)
    for caller, epsilon in (("ana", "0.06"), ("ana", "0.4"), ("eve", "0.5"), ("ben", "2")):
        assert ask_for_outcome(world, caller, epsilon) != "granted"
    assert level_rows(world) == before
    assert sound(world)


def test_a_refusal_by_a_level_neither_exhausts_nor_halts_nor_crosses() -> None:
    world = divided({**BASIC, "halt_on_refusal": True})
    divide(world, "analyst", "ana", part="0.1")
    assert ask_for_outcome(world, "ana", "0.2") == "analyst/ana limit"
    assert ask_for_record(world, "ana", "0.2")["fits"] == "pure:0.1"
    ledger = world.ledger()
    assert (ledger.halted, ledger.exhausted, ledger.crossed) == (False, False, 0)
    assert ask_for_outcome(world, "ben", "0.5") == "granted"
    assert ask_for_outcome(world, "ben", "0.6") == "exhausted"
    assert world.ledger().halted
    assert sound(world)


def test_a_refusal_by_a_limit_does_not_exhaust_a_nearly_used_dataset() -> None:
    world = divided()
    assert ask_for_outcome(world, "cy", "0.99") == "granted"
    before = world.ledger().crossed
    divide(world, "analyst", "ana", part="0.001")
    assert ask_for_outcome(world, "ana", "0.005") == "analyst/ana limit"
    assert (world.ledger().crossed, world.ledger().exhausted) == (before, False)
    assert sound(world)


def test_the_offered_claim_fits_every_limit_and_a_larger_one_does_not() -> None:
    world = divided({**BASIC, "most_per_request": "0.5"})
    divide(world, "team", "blue", part="0.3")
    divide(
        world,
        "each",
        "blue",
        policy={"filter": "fully_adaptive", "epsilon": "0.5", "delta": "1e-6"},
    )
    refused = ask_for_record(world, "ana", "0.9")
    assert refused["reason"] == "above_cap"
    fits = refused["fits"].removeprefix("pure:")
    assert ask_for_outcome(world, "ana", f"{float(fits) + 0.001:.4f}").endswith(" limit")
    assert ask_for_outcome(world, "ana", fits) == "granted"
    refused = ask_for_record(world, "ben", "0.4")
    assert refused["level"]["name"] == "blue"
    assert ask_for_outcome(world, "ben", refused["fits"].removeprefix("pure:")) == "granted"
    assert sound(world)


def test_a_batch_is_offered_as_many_as_fit_at_every_level() -> None:
    world = divided()
    divide(world, "team", "blue", part="0.3")
    divide(
        world, "each", "blue", policy={"filter": "gdp_residue", "epsilon": "0.2", "delta": "1e-6"}
    )
    refused = world.ask("100*pure:0.004", analyst="ana")
    assert code(refused) == "exhausted"
    assert refused.fits is not None
    times = int(refused.fits.split("*")[0])
    assert code(world.ask(f"{times + 1}*pure:0.004", analyst="ana")) == "exhausted"
    assert code(world.ask(refused.fits, analyst="ana")) == "granted"
    assert sound(world)


def test_a_refusal_has_the_amount_left_at_each_limit() -> None:
    world = divided()
    divide(world, "dataset", pace={"part": "0.5", "period": "P1D"})
    divide(world, "team", "blue", part="0.3")
    divide(world, "team", "red", reserved="0.2")
    ask_for_record(world, "ana", "0.1")
    refused = ask_for_record(world, "ana", "0.25")
    assert refused["left_at"] == [
        {
            "scope": "dataset",
            "left": {"epsilon": "0.7", "delta": "0"},
            "pace_left": {"epsilon": "0.4", "delta": "0"},
            "more_at": "2026-11-22T10:00:00.000Z",
        },
        {"scope": "team", "name": "blue", "left": {"epsilon": "0.2", "delta": "0"}},
    ]
    assert refused["fits"] == "pure:0.2"
    assert "left_at" not in ask_for_record(world, "ana", "0.1")
    assert ask_for_record(world, "cy", "2")["left_at"][0]["scope"] == "dataset"


def test_every_record_raises_the_version_of_a_limit_and_grants_name_it() -> None:
    world = divided()
    versions = [divide(world, "team", "blue", part=part)["version"] for part in ("0.3", "0.2")]
    removed = limit(world, "team", "blue")
    assert removed.limit is not None
    versions += [removed.limit.version, divide(world, "team", "blue", part="0.4")["version"]]
    assert versions == [1, 2, 3, 4]
    assert ask_for_record(world, "ana", "0.1")["levels"] == [
        {"scope": "team", "name": "blue", "version": 4, "totals": {"epsilon": "0.1", "delta": "0"}}
    ]
    assert divide(world, "team", "red", part="0.4")["version"] == 1
    assert sound(world)


def test_a_removed_limit_refuses_nothing_and_one_made_again_counts_on() -> None:
    world = divided()
    divide(world, "team", "blue", part="0.2")
    assert ask_for_outcome(world, "ana", "0.2") == "granted"
    assert ask_for_outcome(world, "ana", "0.1") == "team/blue limit"
    assert code(limit(world, "team", "blue")) == "limit_removed"
    assert code(limit(world, "team", "blue")) == "unknown_limit"
    found = ask_for_record(world, "ana", "0.1")
    assert (found["outcome"], "levels" in found) == ("granted", False)
    assert level_rows(world)[BLUE]["counted"]["totals"]["epsilon"] == "0.2"
    divide(world, "team", "blue", part="0.25")
    assert ask_for_outcome(world, "ana", "0.06") == "team/blue limit"
    assert ask_for_outcome(world, "ana", "0.05") == "granted"
    assert sound(world)


def test_a_limit_can_be_lowered_below_its_use_and_raised_again() -> None:
    world = divided()
    divide(world, "each", "blue", part="0.5")
    assert ask_for_outcome(world, "ana", "0.4") == "granted"
    divide(world, "each", "blue", part="0.1")
    refused = ask_for_record(world, "ana", "1e-12")
    assert refused["level"]["scope"] == "each"
    assert refused["left_at"] == [
        {"scope": "each", "name": "blue", "left": {"epsilon": "0", "delta": "0"}}
    ]
    assert "fits" not in refused
    assert code(world.ask("7*pure:0.01", analyst="ana")) == "exhausted"
    assert ask_for_outcome(world, "ben", "0.1") == "granted"
    divide(world, "each", "blue", part="0.45")
    assert ask_for_outcome(world, "ana", "0.05") == "granted"
    assert sound(world)


@pytest.mark.parametrize("filter_", ["gdp_residue", "renyi_mixture", "advanced_2016", "zcdp_tight"])
def test_a_limit_with_its_own_filter_can_be_lowered_below_its_use(filter_: str) -> None:
    world = divided({**BASIC, "epsilon": "50"})
    own: dict[str, Any] = {"filter": filter_, "epsilon": "3", "delta": "1e-6"}
    if filter_ == "renyi_mixture":
        own["orders"] = ["22", "40"]
    divide(world, "analyst", "ana", policy=own)
    while ask_for_outcome(world, "ana", "0.2") == "granted":
        pass
    divide(world, "analyst", "ana", policy={**own, "epsilon": "1.5"})
    refused = ask_for_record(world, "ana", "0.01")
    assert refused["level"]["what"] == "limit"
    assert "fits" not in refused
    assert code(world.ask("3*pure:0.01", analyst="ana")) == "exhausted"
    assert sound(world)


def test_another_filter_in_a_default_starts_each_analyst_at_0() -> None:
    world = divided()
    divide(world, "each", "blue", part="0.1")
    assert ask_for_outcome(world, "ana", "0.1") == "granted"
    divide(world, "each", "blue", policy={"filter": "basic", "epsilon": "0.15"})
    assert ask_for_outcome(world, "ana", "0.1") == "each/blue limit"
    divide(world, "each", "blue", policy=ZCDP)
    assert ask_for_outcome(world, "ana", "0.1") == "granted"
    divide(world, "each", "blue", part="0.2")
    assert ask_for_record(world, "ana", "0.1")["levels"][0]["totals"]["epsilon"] == "0.1"
    assert sound(world)


def test_use_stays_with_the_team_when_an_analyst_changes_teams() -> None:
    world = divided()
    divide(world, "team", "blue", part="0.2")
    divide(world, "team", "red", part="0.2")
    assert ask_for_outcome(world, "ana", "0.2") == "granted"
    enrol(world, "ana", "analyst", team="red")
    assert ask_for_outcome(world, "ana", "0.2") == "granted"
    assert ask_for_outcome(world, "ben", "0.1") == "team/blue limit"
    enrol(world, "ana", "analyst", team="blue", until=at_text(world.now + 9))
    world.now += 9
    assert (
        ask_for_outcome(world, "ana", "0.3") == "granted"
    )  # a membership that is over has no team
    assert sound(world)


def test_a_threshold_of_a_limit_is_crossed_once_by_the_grant_that_reaches_it() -> None:
    world = divided({**BASIC, "alert_at": ["0.5", "0.9"]})
    divide(world, "team", "blue", part="0.1")
    crossed = [ask_for_record(world, "ana", "0.02")["levels"][0].get("crossed") for _ in range(5)]
    assert crossed == [None, None, ["0.5"], None, ["0.9"]]
    divide(world, "team", "blue", part="0.2")
    moved = world.ask("pure:0.1", analyst="ana").levels[0]
    assert moved.crossed == ("0.9",)
    wanted = "census/1/level/team/blue/2/0.9"
    assert scope_alert_id("census", 1, moved, "0.9") == wanted
    assert sound(world)


def test_fractions_of_a_unit_are_counted_exactly_at_every_limit() -> None:
    world = divided({"filter": "basic", "epsilon": "3"})
    divide(
        world, "team", "blue", part="0.34", pace={"part": "0.5", "period": "P1D"}, reserved="0.4"
    )
    third = "laplace:scale=3,sensitivity=1"
    moved = [world.ask(third, analyst="ana").levels[0] for _ in range(3)]
    excess = {"epsilon": "2/3"}
    assert moved[0].rounded_up == moved[0].paced_rounded_up == moved[0].used_rounded_up == excess
    assert moved[2].totals == moved[2].paced == moved[2].used == {"epsilon": "1", "delta": "0"}
    assert moved[2].rounded_up is None
    assert code(world.ask(third, analyst="ana")) == "exhausted"
    assert sound(world)


def test_an_amendment_keeps_limits_and_a_lower_budget_is_refused_while_there_are_any() -> None:
    world = divided()
    divide(world, "team", "blue", part="0.2")
    lower = {**BASIC, "epsilon": "0.5"}
    assert code(world.amend(policy=lower)) == "has_limits"
    assert code(world.amend(alert_at=["0.1"])) == "amended"
    assert ask_for_record(world, "ana", "0.02")["levels"][0]["crossed"] == ["0.1"]
    world = divided()
    divide(world, "team", "blue", part="0.2")
    limit(world, "team", "blue")
    assert code(world.amend(policy=lower)) == "amended"
    assert divide(world, "team", "blue", part="0.2")["budget"]["epsilon"] == "0.1"
    assert ask_for_outcome(world, "ana", "0.2") == "team/blue limit"
    assert code(world.amend(policy=lower)) == "has_limits"
    assert sound(world)


def test_only_owners_set_limits_and_each_refusal_has_its_precedence() -> None:
    world = divided()
    assert code(limit(world, "team", "blue", part="0.2", by="ana")) == "not_permitted"
    assert code(limit(world, "team", "blue", part="0.2", dataset="d1")) == "unknown_dataset"
    assert code(limit(world, "team", "blue", follows=1)) == "out_of_date"
    assert code(limit(world, "team", "blue")) == "unknown_limit"
    assert code(limit(world, "team", "blue", part="1e-40")) == "limit_set"
    assert code(limit(world, "team", "blue", reserved="1")) == "limit_set"
    assert code(limit(world, "team", "red", reserved="0.1")) == "over_reserved"
    assert code(world.close()) == "closed"
    assert code(limit(world, "team", "red", part="0.1")) == "closed"
    assert code(limit(world, "team", "red", part="0.1", by="ana")) == "not_permitted"
    assert sound(world)


RESIDUE = {"filter": "gdp_residue", "epsilon": "1", "delta": "1e-6"}
PACE = {"part": "0.1", "period": "P1D"}


def test_a_limit_is_possible_only_if_the_filter_supports_it() -> None:
    def check_case(policy: dict[str, Any], fields: dict[str, Any], possible: bool) -> None:
        world = divided(policy)
        assert code(limit(world, "team", "blue", **fields)) == (
            "limit_set" if possible else "limit_not_possible"
        )
        assert sound(world)

    check_rows(
        check_case,
        [
            (RESIDUE, {"part": "0.2"}, False),
            (RESIDUE, {"pace": PACE}, False),
            (RESIDUE, {"reserved": "0.2"}, False),
            (RESIDUE, {"policy": RESIDUE}, True),
            ({**RESIDUE, "beside": "basic"}, {"part": "0.2"}, False),
            (
                {**RESIDUE, "filter": "zcdp_tight", "beside": "basic"},
                {"part": "0.2", "pace": PACE},
                True,
            ),
            ({**RESIDUE, "filter": "zcdp_tight", "beside": "basic"}, {"reserved": "0.2"}, False),
            ({**RESIDUE, "filter": "zcdp_tight"}, {"reserved": "0.2"}, True),
            ({**RESIDUE, "filter": "fully_adaptive"}, {"reserved": "0.2"}, True),
            ({**RESIDUE, "filter": "renyi", "order": "22"}, {"reserved": "0.2"}, True),
            ({**RESIDUE, "filter": "renyi_weighted", "orders": ["22"]}, {"reserved": "0.2"}, False),
            ({**RESIDUE, "filter": "renyi_weighted", "orders": ["22"]}, {"part": "0.2"}, True),
            ({**RESIDUE, "filter": "advanced_2016"}, {"reserved": "0.2"}, False),
            ({"filter": "basic", "epsilon": "1", "delta": "1e-30"}, {"part": "1e-20"}, False),
            ({"filter": "basic", "epsilon": "1", "delta": "1e-30"}, {"part": "1e-5"}, True),
        ],
    )


def test_under_beside_each_limit_ends_its_filter_separately() -> None:
    world = divided({"filter": "zcdp_tight", "epsilon": "1", "delta": "1e-6", "beside": "basic"})
    divide(world, "analyst", "ana", part="0.3")
    said_to = [ask_for_outcome(world, "ana", "0.1") for _ in range(4)]
    assert said_to == ["granted"] * 3 + ["analyst/ana limit"]
    row = level_rows(world)['{"dataset":"census","scope":"analyst","name":"ana"}']
    assert row["counted"]["totals"]["filter_ended"] == "1"
    assert world.ledger().totals[world.ledger().plan.ended or 0] == 0
    assert sound(world)


def test_a_dataset_has_at_most_1000_limits() -> None:
    world = divided(batch=10**6)
    for i in range(1_000):
        assert code(limit(world, "analyst", f"a{i}", part="0.5")) == "limit_set"
    assert code(limit(world, "team", "blue", part="0.5")) == "too_many_limits"
    assert code(limit(world, "analyst", "a7", part="0.4")) == "limit_set"
    assert code(limit(world, "analyst", "a7")) == "limit_removed"
    assert code(limit(world, "team", "blue", part="0.5")) == "limit_set"
    assert code(limit(world, "analyst", "a7", part="0.4")) == "too_many_limits"
    assert world.ledger().limits == 1_000
    assert world.ledger().levels == 1_001


def test_a_dataset_without_limits_decides_as_before_in_the_same_bytes() -> None:
    logs = []
    for apart in (False, True):
        world = divided()
        if apart:
            world.open("other", **BASIC)
            limit(world, "team", "blue", part="0.01", dataset="other")
        start = len(world.log)
        for epsilon, caller in itertools.product(("0.1", "0.3", "2"), ("ana", "cy")):
            ask_for_record(world, caller, epsilon)
        logs.append([(d.outcome, d.cost, d.totals, d.levels) for d in world.decisions[start:]])
    assert logs[0] == logs[1]


def test_undoing_a_decision_restores_limits_and_shares() -> None:
    world = divided(batch=10**6)
    divide(world, "team", "blue", part="0.5", reserved="0.4")
    divide(world, "analyst", "ana", reserved="0.2")
    ask_for_record(world, "ana", "0.05")
    draft = world.draft
    undone: tuple[tuple[Source, bytes], ...] = (
        ("requests", world.request("pure:0.1", analyst="ana")),
        ("admin", world.admin("limit", scope="team", name="blue", part="0.1")),
        ("admin", world.admin("limit", scope="each", name="red", part="0.1")),
    )
    before = draft.rows()
    for source, body in undone:
        mark = draft.mark()
        decide(draft, Input(source, draft.next[source], b"k", body, world.now), world.now)
        assert draft.rows() != before
        draft.rewind(mark)
        assert draft.rows() == before
    assert ask_for_outcome(world, "cy", "0.61") == "dataset reserved"
    assert ask_for_outcome(world, "cy", "0.6") == "granted"
    assert sound(world)


def test_the_order_of_the_log_decides_which_analyst_gets_the_last_of_a_limit() -> None:
    for fields in ({"part": "0.1"}, {"pace": PACE}, {"part": "0.5", "reserved": "0.1"}):
        world = divided(batch=100)
        divide(world, "team", "blue", **fields)
        divide(world, "team", "red", reserved="0.9" if "reserved" in fields else "0.1")
        assert [ask_for_outcome(world, caller, "0.1") for caller in ("ana", "ben", "ana")].count(
            "granted"
        ) == 1
        assert sound(world)
