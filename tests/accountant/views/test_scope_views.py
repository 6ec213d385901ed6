"""Limits and budgets as people look at them are what decisions say, whatever was done before."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Final

import pytest

from accountant.fractional import PARTS, parts_of
from accountant.ledger.snapshots import remaining_wire
from accountant.limits.applicable_limits import team_of
from accountant.records.limit_records import Texts
from accountant.views.limit_views import (
    AnalystBudget,
    DatasetLimits,
    ScopeView,
    analyst_budget,
    scope_views,
)
from tests.accountant.partition.circle import enrol
from tests.accountant.partition.division import (
    ask_for_outcome,
    ask_for_record,
    days,
    divide,
    divided,
    limit,
)
from tests.accountant.partition.test_period_limits import set_back
from tests.accountant.views.scope_life import Watched
from tests.accountant.world import START, World, code
from tests.nightly import rounds

LIVES: Final = 3
STEPS: Final = 1_000
DAILY: Final = {"part": "0.1", "period": "P1D"}


@pytest.mark.parametrize("part", range(rounds(1, 40)))
def test_limits_and_budgets_as_shown_equal_those_of_the_next_decision(part: int) -> None:
    found = Counter[str]()
    for seed in range(LIVES):
        life = Watched(seed + 1 + part * LIVES)
        for _ in range(STEPS):
            life.step()
        found += life.found
    assert found["left_at"] > 80, found
    assert min(found["seen"], found["moved"]) > 300, found
    assert found["counted to the end"] > 20, found


def now(world: World) -> DatasetLimits:
    """Return a world's dataset and how it is divided."""
    world.commit()
    at = max(world.now, world.state.decided_at)
    return DatasetLimits(world.ledger(), world.state.levels, at, world.state.resets)


def budget(world: World, analyst: str) -> AnalystBudget:
    shown = now(world)
    team = team_of(world.state.members.get("census", analyst), shown.at)
    return analyst_budget(shown, analyst, team)


def test_a_budget_lists_its_limits_in_the_order_of_the_checks() -> None:
    world = divided()
    divide(world, "dataset", pace={"part": "0.5", "period": "P7D"})
    divide(world, "team", "blue", part="0.4")
    divide(world, "each", "blue", part="0.2", pace=DAILY)
    divide(world, "analyst", "ben", part="0.3", reserved="0.05")
    assert [ask_for_outcome(world, caller, "0.05") for caller in ("ana", "ben", "cy")] == [
        "granted"
    ] * 3
    ana, ben, cy, eve = (budget(world, caller) for caller in ("ana", "ben", "cy", "eve"))
    assert places(ana) == ["dataset", "team/blue", "each/blue of ana"]
    assert places(ben) == ["dataset", "team/blue", "analyst/ben"]
    assert (places(cy), places(eve)) == (["dataset"], ["dataset"])
    assert [each.team for each in (ana, ben, cy, eve)] == ["blue", "blue", "red", None]
    team, default = ana.levels[1:]
    assert (amount(team.budget), amount(team.used), amount(team.left)) == ("0.4", "0.1", "0.3")
    assert team.spent_ratio == pytest.approx(0.25)
    assert (amount(default.used), amount(default.left)) == ("0.05", "0.15")
    assert default.pace is not None
    assert (amount(default.pace.left), default.pace.ends_at) == (
        *("0.05", "2026-11-22T10:00:00.000Z"),
    )
    share = ben.levels[2].reserved
    assert share is not None
    assert (amount(share.budget), amount(share.left), share.team) == ("0.05", "0", "blue")


def test_a_list_has_every_limit_once_and_a_default_without_anybodys_use() -> None:
    world = divided()
    divide(world, "analyst", "zoe", part="0.3")
    divide(world, "analyst", "cy", reserved="0.1")
    divide(world, "each", "red", part="0.1", pace=DAILY)
    divide(world, "team", "red", part="0.2")
    divide(world, "team", "blue", pace=DAILY)
    divide(world, "dataset", pace=DAILY)
    assert ask_for_outcome(world, "dan", "0.05") == "granted"
    views = scope_views(now(world))
    assert [place(view) for view in views] == [
        *("dataset", "team/blue", "team/red", "each/red", "analyst/cy", "analyst/zoe"),
    ]
    default = views[3]
    assert (default.used, default.left, default.spent_ratio) == (None, None, None)
    assert default.pace is not None
    assert (amount(default.pace.used), amount(default.pace.left)) == ("0", "0.1")
    assert amount(views[2].used) == "0.05"
    assert code(limit(world, "team", "red")) == "limit_removed"
    assert "team/red" not in [place(view) for view in scope_views(now(world))]
    assert places(budget(world, "dan")) == ["dataset", "each/red of dan"]


def test_shares_reserved_for_others_reduce_the_remaining_budget() -> None:
    world = divided()
    divide(world, "team", "blue", reserved="0.4")
    divide(world, "analyst", "ana", reserved="0.1")
    assert [amount(budget(world, caller).left) for caller in ("ana", "ben", "cy", "eve")] == [
        *("1", "0.9", "0.6", "0.6"),
    ]
    assert ask_for_outcome(world, "ana", "0.25") == "granted"
    assert [amount(budget(world, caller).left) for caller in ("ana", "ben", "cy", "eve")] == [
        *("0.75", "0.75", "0.6", "0.6"),
    ]
    refused = ask_for_record(world, "cy", "0.61")
    assert refused["left_at"] == [{"scope": "dataset", "left": {"epsilon": "0.6", "delta": "0"}}]


def test_without_limits_an_analyst_has_all_that_the_dataset_has_left() -> None:
    world = divided()
    ask_for_record(world, "ana", "0.3")
    shown = budget(world, "ana")
    assert (shown.left, shown.levels) == (remaining_wire(world.ledger()), ())
    assert (shown.budget, shown.spent_ratio) == (
        *({"epsilon": "1", "delta": "0"}, world.ledger().spent_ratio),
    )
    assert scope_views(now(world)) == []


def test_a_lowered_limit_leaves_nothing_and_is_used_up() -> None:
    world = divided()
    divide(world, "team", "blue", part="0.4")
    ask_for_record(world, "ana", "0.3")
    divide(world, "team", "blue", part="0.1")
    (level,) = budget(world, "ana").levels
    assert (amount(level.budget), amount(level.used), amount(level.left)) == ("0.1", "0.3", "0")
    assert (level.spent_ratio, level.version) == (1.0, 2)


def test_shown_amounts_are_rounded_to_the_safe_side() -> None:
    world = divided({"filter": "zcdp", "rho": "1", "delta": "0"})
    divide(world, "team", "blue", part="0.3")
    divide(world, "each", "blue", policy={"filter": "basic", "epsilon": "0.3"})
    parts = set[Fraction]()
    for _ in range(7):  # costs no whole number of units in either filter
        assert code(world.ask("laplace:scale=300,sensitivity=1", analyst="ana")) == "granted"
        team, own = budget(world, "ana").levels
        counts = [level.counted for level in world.state.levels if level.counted is not None]
        assert len(counts) == 2
        for view, count in zip((own, team), counts, strict=True):
            exact = Fraction(parts_of(count.amounts[0]), PARTS) / 10**40
            parts.add(exact * 10**40 % 1)
            used, left = Fraction(amount(view.used)), Fraction(amount(view.left))
            whole = Fraction(amount(view.budget))
            assert 0 <= used - exact < Fraction(1, 10**40)
            assert left == whole - used
            assert view.spent_ratio is not None
            assert (
                exact / whole <= Fraction(view.spent_ratio) <= exact / whole + Fraction(1, 10**15)
            )
    assert len(parts) == 3


def test_an_analyst_who_changes_teams_gets_the_limits_of_the_new_team() -> None:
    world = divided()
    divide(world, "team", "blue", part="0.4")
    divide(world, "each", "red", part="0.2")
    ask_for_record(world, "ana", "0.1")
    enrol(world, "ana", "analyst", team="red")
    assert places(budget(world, "ana")) == ["each/red of ana"]
    assert amount(budget(world, "ana").levels[0].left) == "0.2"
    assert amount(budget(world, "ben").levels[0].left) == "0.3"


def test_a_new_period_shows_its_whole_pace_before_any_grant() -> None:
    world = divided()
    divide(world, "dataset", pace=DAILY)
    ask_for_record(world, "ana", "0.1")
    world.now += days(3.25)
    (level,) = budget(world, "ana").levels
    assert level.pace is not None
    assert (amount(level.pace.left), level.pace.ends_at) == ("0.1", "2026-11-25T10:00:00.000Z")
    assert ask_for_outcome(world, "ana", "0.2") == "dataset pace"
    set_back(world, START + days(1.5))
    (level,) = budget(world, "ana").levels
    assert level.pace is not None
    assert (amount(level.pace.left), level.pace.ends_at) == ("0", "2026-11-23T10:00:00.000Z")


def place(view: ScopeView) -> str:
    name = view.scope if view.name is None else f"{view.scope}/{view.name}"
    return name if view.analyst is None else f"{name} of {view.analyst}"


def places(shown: AnalystBudget) -> list[str]:
    return [place(view) for view in shown.levels]


def amount(texts: Texts | None) -> str:
    """Return the first of some amounts."""
    assert texts is not None
    return next(iter(texts.values()))
