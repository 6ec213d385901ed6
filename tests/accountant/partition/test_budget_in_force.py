"""A ceiling, and the budget in force below it: raised, lowered, and never promised."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from accountant.advice.preview import more_like
from accountant.claims.text import parse_claim
from accountant.policy import guarantee_of
from accountant.records import Decision
from accountant.records.outcomes import Outcome, Reason
from accountant.replay.audit import audit
from accountant.replay.replay import state_rows
from accountant.views.datasets import view_of_ledger
from tests.accountant.world import World, code

CEILINGS = {
    "basic": {"filter": "basic", "epsilon": "3"},
    "ex_post": {"filter": "ex_post", "epsilon": "3"},
    "zcdp": {"filter": "zcdp", "rho": "0.5", "delta": "1e-6"},
    "zcdp_tight": {"epsilon": "3", "delta": "1e-6"},
    "beside": {"epsilon": "3", "delta": "1e-6", "beside": "basic"},
    "fully_adaptive": {"filter": "fully_adaptive", "epsilon": "3", "delta": "1e-6"},
    "unified_brownian": {"filter": "unified_brownian", "epsilon": "3", "delta": "1e-6"},
    "advanced_2016": {"filter": "advanced_2016", "epsilon": "3", "delta": "1e-6"},
    "renyi": {"filter": "renyi", "epsilon": "3", "delta": "1e-6", "order": "16"},
    "renyi_weighted": {
        "filter": "renyi_weighted",
        "epsilon": "3",
        "delta": "1e-6",
        "orders": ["16", "32"],
    },
    "gdp_residue": {"filter": "gdp_residue", "epsilon": "3", "delta": "1e-6"},
    "gdp_residue_beside": {
        "filter": "gdp_residue",
        "epsilon": "3",
        "delta": "1e-6",
        "beside": "basic",
    },
    "split": {
        "filter": "split",
        "epsilon": "3",
        "delta": "1e-6",
        "epsilon_ex_post": "1",
    },
}


def opened_below(policy: dict[str, object], **budget: str) -> World:
    world = World()
    opened = world.send("admin", world.admin("open", policy=policy, budget=budget))
    assert opened.outcome is Outcome.OPENED, opened.error
    return world


def set_budget(world: World, **budget: str) -> Decision:
    return world.send("admin", world.admin("budget", budget=budget))


def sound(world: World) -> bool:
    report = audit(world.log, genesis=world.genesis)
    assert report.ok, report.first_disagreement
    return state_rows(world.replayed()) == world.rows()


def spend(world: World, claim: str) -> int:
    """Ask until a request is refused for want of budget; return how many were granted.

    So many were said to fit where there are no limits, by gdp_residue a few less.
    """
    granted, counted = 0, more_like(parse_claim(claim), view_of_ledger(world.ledger()))
    while world.ask(claim).outcome is Outcome.GRANTED:
        granted += 1
    assert world.decisions[-1].reason is Reason.EXHAUSTED
    assert counted is not None
    few = 3 if world.ledger().plan.policy.filter == "gdp_residue" else 0
    assert world.ledger().limits or granted - few <= counted <= granted
    return granted


def test_a_raise_admits_more_and_promises_the_ceiling_from_the_first_day() -> None:
    world = opened_below(CEILINGS["basic"], epsilon="1")
    assert guarantee_of(world.ledger().plan.policy).amount == 3
    assert world.decisions[-1].left == {"epsilon": "1", "delta": "0"}
    assert spend(world, "pure:0.1") == 10
    assert world.decisions[-1].fits is None
    assert world.ledger().exhausted
    assert set_budget(world, epsilon="1.5").outcome is Outcome.BUDGET_SET
    assert not world.ledger().exhausted
    assert spend(world, "pure:0.1") == 5
    assert sound(world)


@pytest.mark.parametrize("name", CEILINGS)
def test_a_filter_grants_no_more_than_is_in_force(name: str) -> None:
    policy = CEILINGS[name]
    field = "rho" if "rho" in policy else "epsilon"
    small, more, all_of_it = (str(Fraction(str(policy[field])) * part / 12) for part in (4, 8, 12))
    claim = "ex_post:0.05" if name == "ex_post" else "pure:0.05"
    world = opened_below(policy, **{field: _decimal(small)})
    first = spend(world, claim)
    assert set_budget(world, **{field: _decimal(more)}).outcome is Outcome.BUDGET_SET
    second = spend(world, claim)
    assert set_budget(world, **{field: _decimal(all_of_it)}).outcome is Outcome.BUDGET_SET
    third = spend(world, claim)
    whole = World()
    whole.open(**policy)
    assert first + second + third == spend(whole, claim)
    assert min(first, second, third) > 0
    assert sound(world)


def _decimal(text: str) -> str:
    return f"{float(Fraction(text)):.12g}"


def test_what_a_refusal_offers_is_granted_and_no_more() -> None:
    for name in ("zcdp_tight", "beside", "advanced_2016", "gdp_residue", "split"):
        world = opened_below(CEILINGS[name], epsilon="1")
        world.ask("pure:0.3")
        refused = world.ask("pure:2.5")
        assert (name, code(refused)) == (name, "exhausted")
        assert refused.fits is not None
        assert (name, code(world.ask(refused.fits))) == (name, "granted")
        assert sound(world)


def test_a_batch_is_offered_as_often_as_it_fits() -> None:
    for name in ("basic", "beside", "gdp_residue"):
        world = opened_below(CEILINGS[name], epsilon="1")
        refused = world.ask("1000*pure:0.05")
        assert refused.fits is not None
        times = int(refused.fits.partition("*")[0])
        assert code(world.ask(f"{times}*pure:0.05")) == "granted"
        again = opened_below(CEILINGS[name], epsilon="1")
        assert (name, code(again.ask(f"{times + 1}*pure:0.05"))) == (name, "exhausted")
        assert sound(world)


def test_lowering_stops_grants_and_shows_nothing_smaller() -> None:
    world = opened_below(CEILINGS["basic"], epsilon="2")
    for _ in range(15):
        world.ask("pure:0.1")
    lowered = set_budget(world, epsilon="1")
    assert lowered.outcome is Outcome.BUDGET_SET
    assert lowered.crossed == ("0.8", "0.95", "1")
    assert lowered.left == {"epsilon": "0", "delta": "0"}
    assert lowered.spent_ratio == 1
    assert code(world.ask("pure:0.001")) == "exhausted"
    assert guarantee_of(world.ledger().plan.policy).amount == 3
    assert set_budget(world, epsilon="2").outcome is Outcome.BUDGET_SET
    assert code(world.ask("pure:0.1")) == "granted"
    assert sound(world)


def test_thresholds_are_those_of_the_budget_in_force() -> None:
    world = opened_below(CEILINGS["basic"], epsilon="1")
    crossed = [world.ask("pure:0.1").crossed for _ in range(10)]
    assert [each for each in crossed if each] == [("0.5",), ("0.8",), ("0.95", "1")]
    assert set_budget(world, epsilon="2").crossed == ()
    assert world.ledger().crossed == 1
    crossed = [world.ask("pure:0.1").crossed for _ in range(10)]
    assert [each for each in crossed if each] == [("0.8",), ("0.95",), ("1",)]
    assert sound(world)


@pytest.mark.parametrize(
    ("budget", "answer"),
    [
        ({"epsilon": "3"}, "budget_set"),
        ({"epsilon": "3.0001"}, "above_ceiling"),
        ({"rho": "0.1"}, "above_ceiling"),
        ({"epsilon": "1", "rho": "0.1"}, "invalid_field"),
        ({}, "invalid_field"),
        ({"epsilon": "-1"}, "invalid_field"),
        ({"epsilon": "nan"}, "invalid_field"),
    ],
)
def test_which_budgets_may_be_set(budget: dict[str, str], answer: str) -> None:
    world = opened_below(CEILINGS["basic"], epsilon="1")
    assert code(set_budget(world, **budget)) == answer
    assert sound(world)


def test_a_closed_dataset_takes_no_budget_and_a_paused_one_does() -> None:
    world = opened_below(CEILINGS["basic"], epsilon="1")
    world.send("admin", world.admin("pause"))
    assert code(set_budget(world, epsilon="2")) == "budget_set"
    world.close()
    assert code(set_budget(world, epsilon="3")) == "closed"
    assert sound(world)


def test_an_opening_above_its_ceiling_is_invalid() -> None:
    world = World()
    for budget in ({"epsilon": "4"}, {"rho": "1"}, {}, {"epsilon": "0"}):
        record = world.admin("open", policy=CEILINGS["basic"], budget=budget)
        assert code(world.send("admin", record)) == "invalid_field"


def test_a_share_is_promised_of_what_is_in_force_alone() -> None:
    world = opened_below(CEILINGS["basic"], epsilon="1")
    share = {"scope": "team", "name": "red"}
    too_much = world.send("admin", world.admin("limit", **share, reserved="0.5"))
    assert code(too_much) == "over_reserved"
    assert code(world.send("admin", world.admin("limit", **share, reserved="0.25"))) == "limit_set"
    assert spend(world, "pure:0.05") == 5
    assert code(set_budget(world, epsilon="0.9")) == "over_reserved"
    assert code(set_budget(world, epsilon="2")) == "budget_set"
    assert spend(world, "pure:0.05") == 20
    assert sound(world)


@pytest.mark.parametrize("name", ["beside", "fully_adaptive", "gdp_residue", "split"])
def test_budgets_at_random_are_never_overspent_and_replay(name: str) -> None:
    draw = random.Random(name)
    world, in_force = opened_below(CEILINGS[name], epsilon="1"), Fraction(1)
    plan = world.ledger().plan
    for _ in range(60):
        if draw.random() < 0.2:
            in_force = Fraction(draw.randint(1, 30), 10)
            assert code(set_budget(world, epsilon=_decimal(str(in_force)))) == "budget_set"
            plan = world.ledger().plan
            continue
        epsilon = draw.choice(["0.02", "0.1", "0.3"])
        claim = draw.choice([f"pure:{epsilon}", "gaussian:8,1", "gaussian:20,1"])
        if world.ask(claim).outcome is Outcome.GRANTED:
            assert plan.progress(world.ledger().totals) <= plan.most
    assert sound(world)
