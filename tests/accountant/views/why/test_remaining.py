"""What is left in each scope, where limits divide a budget and where another sum decides."""

from __future__ import annotations

import pytest

from accountant.amounts import parse_units
from accountant.limits.applicable_limits import team_of
from accountant.views.datasets import view_of_ledger
from accountant.views.limit_views import DatasetLimits, analyst_budget, scope_views
from accountant.views.why import (
    RemainingAmount,
    SpenderKey,
    remaining_by_scope,
    remaining_of_dataset,
)
from tests.accountant.world import World

OTHER_UNIT = "a limit counts in another unit"


def divided_world() -> World:
    world = World()
    world.open("census", epsilon="1", filter="basic", delta="1e-6")
    for member, team in (("ana", "blue"), ("ben", "red"), ("cy", "red")):
        world.send("admin", world.admin("member", member=member, roles=["analyst"], team=team))
    return world


def limit(world: World, scope: str, name: str | None, **what: object) -> None:
    named = {} if name is None else {"name": name}
    decision = world.send("admin", world.admin("limit", scope=scope, **named, **what))
    assert decision.outcome == "limit_set", decision


def left_in(world: World, *analysts: str) -> dict[SpenderKey, RemainingAmount]:
    world.commit()
    state = world.state
    divided = DatasetLimits(state.ledgers["census"], state.levels, world.now, state.resets)
    budgets = {
        name: analyst_budget(divided, name, team_of(state.members.get("census", name), world.now))
        for name in analysts
    }
    return remaining_by_scope(view_of_ledger(divided.ledger), scope_views(divided), budgets)


def units(text: str) -> int:
    found = parse_units(text)
    assert isinstance(found, int)
    return found


def test_without_limits_each_analyst_may_use_all_that_is_left() -> None:
    world = divided_world()
    world.ask("pure:0.25")
    found = left_in(world, "ana")
    assert found == {
        SpenderKey("all"): RemainingAmount(units("0.75")),
        SpenderKey("analyst", "ana"): RemainingAmount(units("0.75")),
    }


def test_the_amount_left_is_the_minimum_of_the_dataset_and_the_limits() -> None:
    world = divided_world()
    limit(world, "team", "red", part="0.5")
    limit(world, "analyst", "ben", part="0.1")
    limit(world, "analyst", "cy", part="0.9")
    world.ask("pure:0.05", analyst="ben")
    world.ask("pure:0.25", analyst="cy")
    found = left_in(world, "ana", "ben", "cy")
    assert found[SpenderKey("all")] == RemainingAmount(units("0.7"))
    assert found[SpenderKey("team", "red")] == RemainingAmount(units("0.2"))
    assert found[SpenderKey("analyst", "ana")] == RemainingAmount(units("0.7"))
    assert found[SpenderKey("analyst", "ben")] == RemainingAmount(units("0.05"))
    assert found[SpenderKey("analyst", "cy")] == RemainingAmount(units("0.2"))


def test_the_reserved_share_of_another_team_is_not_left_for_an_analyst() -> None:
    world = divided_world()
    limit(world, "team", "red", reserved="0.4")
    limit(world, "team", "blue", part="0.9")
    found = left_in(world, "ana", "ben")
    assert found[SpenderKey("analyst", "ana")] == RemainingAmount(units("0.6"))
    assert found[SpenderKey("analyst", "ben")] == RemainingAmount(units("1"))
    assert found[SpenderKey("team", "blue")] == RemainingAmount(units("0.6"))
    assert found[SpenderKey("team", "red")] == RemainingAmount(units("1"))


def test_shares_of_a_teams_analysts_are_left_for_the_team_and_not_for_others() -> None:
    world = divided_world()
    limit(world, "team", "red", reserved="0.3")
    limit(world, "analyst", "cy", reserved="0.25")
    limit(world, "analyst", "ana", reserved="0.125")
    limit(world, "team", "blue", part="1")
    world.ask("pure:0.2", analyst="ben")
    found = left_in(world)
    # Of red's share 0.1 is left, of cy's within it still 0.25.
    assert found[SpenderKey("team", "blue")] == RemainingAmount(units("0.55"))
    assert found[SpenderKey("team", "red")] == RemainingAmount(units("0.675"))


def test_a_limit_in_another_unit_is_skipped_and_marked() -> None:
    world = divided_world()
    limit(world, "team", "blue", policy={"filter": "zcdp", "rho": "0.1"})
    limit(world, "analyst", "cy", policy={"filter": "basic", "epsilon": "0.3"})
    found = left_in(world, "ana", "cy")
    assert found[SpenderKey("team", "blue")] == RemainingAmount(units("1"), OTHER_UNIT)
    assert found[SpenderKey("analyst", "ana")] == RemainingAmount(units("1"), OTHER_UNIT)
    assert found[SpenderKey("analyst", "cy")] == RemainingAmount(units("0.3"))


def test_a_pace_leaves_the_remaining_amount_and_adds_its_period() -> None:
    world = divided_world()
    limit(world, "analyst", "ana", pace={"part": "0.1", "period": "P1D"})
    found = left_in(world, "ana")
    own, whole = found[SpenderKey("analyst", "ana")], found[SpenderKey("all")]
    assert (own.units, own.note, whole.periods) == (units("1"), None, ())
    (period,) = own.periods
    assert (period.left, period.budget, period.days) == (units("0.1"), units("0.1"), 1)
    limit(world, "dataset", None, pace={"part": "0.5", "period": "P7D"})
    found = left_in(world, "ana")
    assert [each.days for each in found[SpenderKey("all")].periods] == [7]
    assert [each.days for each in found[SpenderKey("analyst", "ana")].periods] == [7, 1]


@pytest.mark.parametrize(
    ("policy", "claim", "known"),
    [
        ({"filter": "zcdp", "rho": "0.5"}, "gaussian:sigma=9,sensitivity=1", True),
        ({"filter": "fully_adaptive", "epsilon": "1", "delta": "1e-6"}, "pure:0.01", True),
        (
            {"filter": "gdp_residue", "epsilon": "1", "delta": "1e-6", "beside": "basic"},
            "pure:0.1",
            False,
        ),
    ],
)
def test_the_amount_left_is_unknown_if_another_sum_decides(
    policy: dict[str, object], claim: str, known: bool
) -> None:
    world = World()
    world.open("census", **policy)
    assert world.ask(claim).outcome == "granted"
    world.commit()
    left = remaining_of_dataset(view_of_ledger(world.state.ledgers["census"]))
    assert (left.units is not None) == known
    assert (left.note is None) == known
