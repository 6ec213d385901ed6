"""Costs that have no decimal add up to the budget, and never to more than it."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accountant import claims as c
from accountant.advice.fit import fit, unspent
from accountant.advice.preview import more_like, preview
from accountant.amounts import parse_units
from accountant.claims import AllOf, Repeat, check_claim
from accountant.claims.price import price
from accountant.claims.text import claim_text, parse_claim
from accountant.dataset_ledger import DatasetLedger
from accountant.fractional import PARTS, parts_of
from accountant.ledger.adjudicate import adjudicate
from accountant.ledger.snapshots import ledger_of_row, snapshot
from accountant.policy import Policy, resolve
from accountant.policy.compiled_policy import CompiledPolicy, open_plan
from accountant.records import Decision
from accountant.records.outcomes import Outcome
from accountant.records.previews import PreviewRequest
from accountant.replay.audit import audit
from accountant.replay.replay import state_rows
from accountant.views.datasets import view_of_ledger
from tests.accountant.returned import by_paying, by_showing, by_voiding
from tests.accountant.world import World
from tests.every_case import check_rows
from tests.nightly import rounds

BASIC: Final = {"filter": "basic", "epsilon": "1"}
ZCDP: Final = {"filter": "zcdp", "rho": "1"}
RESIDUE: Final = {"filter": "gdp_residue", "epsilon": "1", "delta": "1e-6"}
COUNTS: Final = [
    (BASIC, "laplace:scale=3,sensitivity=1", 3),
    (BASIC, "laplace:scale=30,sensitivity=1", 30),
    (BASIC, "laplace:scale=0.7,sensitivity=0.1", 7),
    (BASIC, "laplace:scale=99,sensitivity=1", 99),
    (ZCDP, "gaussian:sigma=3,sensitivity=1", 18),
    (ZCDP, "gaussian:sigma=97,sensitivity=1", 2 * 97**2),
    (ZCDP, "brownian:variance=3,sensitivity=1,previous=6", 12),
    # What has no parts is rounded up, as ever.
    (BASIC, "laplace:scale=101,sensitivity=1", 100),
]


def plan_of(policy: dict[str, Any]) -> CompiledPolicy:
    return open_plan(resolve(Policy(**{"odometers": (), **policy})))


def ask_repeatedly(world: World, claim: str, times: int) -> list[Decision]:
    return [world.ask(claim) for _ in range(times)]


def test_fits_counts_the_claims_that_the_exact_sum_admits() -> None:
    def check_case(policy: dict[str, Any], claim: str, count: int) -> None:
        assert fit(parse_claim(claim), unspent(plan_of(policy))).count == count

    check_rows(check_case, COUNTS)


@pytest.mark.parametrize(("policy", "claim", "count"), [row for row in COUNTS if row[2] <= 100])
def test_a_ledger_grants_as_many_and_no_more(
    policy: dict[str, Any], claim: str, count: int
) -> None:
    world = World(batch=40)
    world.open(**policy)
    assert all(decision.granted for decision in ask_repeatedly(world, claim, count))
    refused = world.ask(claim)
    assert str(refused.reason) == "exhausted"
    assert audit(world.log).ok
    assert state_rows(world.replayed()) == world.rows()


def test_written_costs_add_up_to_the_totals_with_their_rounding() -> None:
    world = World()
    world.open(**BASIC)
    one, two, three = ask_repeatedly(world, "laplace:scale=3,sensitivity=1", 3)
    third = "0.3333333333333333333333333333333333333333"
    assert [d.cost and d.cost["epsilon"] for d in (one, two, three)] == [
        third[:-1] + "4",
        third,
        third,
    ]
    assert [d.totals and d.totals["epsilon"] for d in (one, two, three)] == [
        third[:-1] + "4",
        third.replace("3", "6")[:-1] + "7",
        "1",
    ]
    assert [d.rounded_up and d.rounded_up["epsilon"] for d in (one, two)] == ["2/3", "1/3"]
    assert three.rounded_up is None
    assert [d.left and d.left["epsilon"] for d in (one, two, three)] == [
        third.replace("3", "6"),
        third,
        "0",
    ]


def test_a_refusal_offers_the_exact_remaining_fraction() -> None:
    world = World()
    world.open(**BASIC)
    ask_repeatedly(world, "laplace:scale=3,sensitivity=1", 2)
    assert world.ask("laplace:scale=2.9,sensitivity=1").fits == "laplace:scale=3,sensitivity=1"
    assert world.ask("2*laplace:scale=3,sensitivity=1").fits == "1*laplace:scale=3,sensitivity=1"
    assert world.ask("pure:0.3333333333333333333333333333333333333334").reason is not None
    assert world.ask("laplace:scale=3,sensitivity=1").granted


def test_a_preview_of_a_fraction_equals_the_next_decision() -> None:
    world = World()
    world.open(**BASIC)
    claim = parse_claim("laplace:scale=3,sensitivity=1")
    for more in (2, 1, 0, 0):
        ledger = world.draft.ledger("census")
        assert ledger is not None
        view = view_of_ledger(ledger)
        reported = preview(view, PreviewRequest(claim, "person", "add_remove"))
        decision = world.ask(claim_text(claim))
        assert (reported.granted, reported.more) == (decision.granted, more)
        assert (reported.cost, reported.asked, reported.left) == (
            decision.cost,
            decision.asked,
            decision.left,
        )
        assert reported.fits == decision.fits
        if decision.granted:
            assert more_like(claim, view, decision=decision) == more


def test_a_batch_of_fractions_costs_the_sum_of_its_parts() -> None:
    third, ninth = parse_claim("gaussian:sigma=30,sensitivity=1"), parse_claim("gdp:0.01")
    for policy in (ZCDP, RESIDUE):
        plan = plan_of(policy)
        one = two = DatasetLedger.new("census", plan, 0)
        for claim in (third, ninth, third):
            one, _ = adjudicate(one, check_claim(claim), "person", "add_remove", 0)
        batch = AllOf((Repeat(third, 2), ninth))
        two, _ = adjudicate(two, check_claim(batch), "person", "add_remove", 0)
        assert one.totals == two.totals


def test_a_pure_mechanism_after_a_fraction_finds_a_state_no_larger() -> None:
    plan = plan_of(RESIDUE)
    gaussian, pure = parse_claim("gaussian:sigma=30,sensitivity=1"), parse_claim("pure:0.1")
    ledger = DatasetLedger.new("census", plan, 0)
    ledger, verdict = adjudicate(ledger, check_claim(gaussian), "person", "add_remove", 0)
    assert verdict.outcome is Outcome.GRANTED
    assert Fraction(parts_of(ledger.totals[0]), PARTS) == Fraction(10**40, 900)
    after, verdict = adjudicate(ledger, check_claim(pure), "person", "add_remove", 0)
    assert verdict.outcome is Outcome.GRANTED
    # The same mechanism on the total as it is written, which is a little more.
    written = parse_units(str(snapshot(ledger).totals["mu_squared"]))
    alone = plan.kind.charge(plan.capacity, (written, 0), verdict.price)  # type: ignore[arg-type]
    assert alone is not None
    assert after.totals[0] - ledger.totals[0] == alone[0] - written


def test_a_settled_claim_stays_charged_exactly_the_amount_paid() -> None:
    plan = plan_of({"filter": "ex_post", "epsilon": "1", "delta": "1e-6"})
    reserved = c.ExPost("0.3333333333333333333333333333333333333334")
    spent: tuple[Any, ...] = (0, 0)
    for times in (1, 2, 3):
        charged = plan.kind.charge(
            plan.capacity, spent, price(check_claim(reserved), plan.kind.needs)
        )
        assert (charged is None) == (times == 3)
        if charged is None:
            break
        returned = by_paying(plan, reserved, Fraction(1, 3))
        spent = tuple(a - b for a, b in zip(charged, returned, strict=True))
        assert Fraction(parts_of(spent[0]), PARTS) == Fraction(times * 10**40, 3)
    # The third could not reserve a unit more than is left; it pays a third all the same.
    last = c.ExPost("0.3333333333333333333333333333333333333333")
    assert plan.kind.fits(plan.capacity, spent, price(check_claim(last), plan.kind.needs))


def test_an_early_settlement_and_a_void_return_the_exact_unused_fraction() -> None:
    plan = plan_of(ZCDP)
    reserved = c.Brownian("3", "1", "6")
    charged = price(check_claim(reserved), plan.priced).amounts
    kept = charged[0] - by_showing(plan, reserved, "4")[0]
    assert Fraction(parts_of(kept), PARTS) == Fraction(10**40, 24)
    assert by_voiding(plan, check_claim(reserved), charged) == charged


@pytest.mark.parametrize(
    "claim",
    [
        "pure:0.1+gaussian:sigma=3,sensitivity=1",
        # What an odometer adds up is whole: 9/36. The state is rounded down after the first.
        "gaussian:sigma=6,sensitivity=1+pure:0.1+8*gaussian:sigma=6,sensitivity=1",
    ],
)
@pytest.mark.parametrize("odometers", [{"odometers": ()}, {}], ids=["none", "the usual one"])
def test_a_fraction_in_a_batch_with_a_pure_mechanism_is_in_the_log(
    claim: str, odometers: dict[str, Any]
) -> None:
    """Such a batch has no finite sum of mu^2: its parts alone say that it has a fraction."""
    world = World()
    world.open(**{**RESIDUE, "epsilon": "5", **odometers})
    granted = world.ask(claim)
    ledger = world.ledger()
    assert granted.rounded_up is not None
    assert ledger_of_row(snapshot(ledger)).totals == ledger.totals
    room = ledger.plan.capacity[0] - parse_units(str((granted.totals or {})["mu_squared"]))
    assert parse_units((granted.left or {})["mu_squared"]) == room
    assert world.ask("gaussian:sigma=3,sensitivity=1").granted
    assert state_rows(world.replayed()) == world.rows()
    assert audit(world.log).ok


def test_the_rounding_in_a_row_has_at_most_153_characters() -> None:
    chance = random.Random(3)
    ledger = DatasetLedger.new("census", open_plan(resolve(Policy(epsilon="100", delta="1e-6"))), 0)
    granted = 0
    for _ in range(2_000):
        digits = "".join(chance.choices("0123456789", k=chance.choice([2, 8, 39])))
        claim = c.Gaussian(f"9.{digits}", "0.0" + str(chance.randrange(1, 100)))
        ledger, verdict = adjudicate(ledger, check_claim(claim), "person", "add_remove", 0)
        granted += verdict.outcome is Outcome.GRANTED
        for text in (snapshot(ledger).rounded_up or {}).values():
            assert len(text) <= 153
    assert granted > 1_000
    assert ledger_of_row(snapshot(ledger)).totals == ledger.totals


class Load(NamedTuple):
    """A policy, and claims with the exact cost that each has in its first sum."""

    policy: dict[str, Any]
    make: Callable[[random.Random], tuple[c.Claim, Fraction]]


def _laplace(chance: random.Random) -> tuple[c.Claim, Fraction]:
    scale, sensitivity = chance.randrange(1, 100), chance.randrange(1, 30)
    return c.Laplace(f"{scale}e1", str(sensitivity)), Fraction(sensitivity, scale * 10)


def _gaussian(chance: random.Random) -> tuple[c.Claim, Fraction]:
    sigma, sensitivity = chance.randrange(1, 100), chance.randrange(1, 30)
    return c.Gaussian(str(sigma), f"{sensitivity}e-1"), Fraction(sensitivity**2, 200 * sigma**2)


def _brownian(chance: random.Random) -> tuple[c.Claim, Fraction]:
    variance, before = sorted(chance.sample(range(1, 100), 2))
    cost = Fraction(1, 2 * variance) - Fraction(1, 2 * before)
    return c.Brownian(str(variance), "1", str(before)), cost


def _pure(chance: random.Random) -> tuple[c.Claim, Fraction]:
    epsilon = f"0.{chance.randrange(1, 10**6):06d}"
    return c.Pure(epsilon), Fraction(epsilon)


LOADS: Final = [
    Load(BASIC, lambda chance: chance.choice([_laplace, _laplace, _pure])(chance)),
    Load(ZCDP, lambda chance: chance.choice([_gaussian, _brownian])(chance)),
    Load({"filter": "unified_brownian", "rho": "1"}, _brownian),
]


def _closing(left: Fraction, policy: dict[str, Any]) -> tuple[c.Claim, Fraction] | None:
    """Return a claim that takes all that is left, where one of few digits does."""
    if policy is not BASIC or not left or max(left.numerator, left.denominator) > 10**9:
        return None
    return c.Laplace(str(left.denominator), str(left.numerator)), left


@pytest.mark.parametrize("load", LOADS, ids=lambda load: str(load.policy["filter"]))
def test_a_claim_is_granted_exactly_if_the_sum_of_fractions_fits(load: Load) -> None:
    """Of thousands of decisions none is another one than exact fractions say."""
    chance = random.Random(str(load.policy))
    plan = plan_of(load.policy)
    ledger, spent, many, filled = DatasetLedger.new("census", plan, 0), Fraction(0), 0, 0
    for _ in range(rounds(10_000, 340_000)):
        claim, cost = load.make(chance)
        closing = _closing(1 - spent, load.policy)
        if closing is not None and chance.random() < 0.2 and _has_parts(closing[1]):
            claim, cost = closing
        ledger, verdict = adjudicate(ledger, check_claim(claim), "person", "add_remove", 0)
        granted = verdict.outcome is Outcome.GRANTED
        assert granted == (spent + cost <= 1), (claim, spent)
        spent += cost if granted else 0
        many += granted
        assert Fraction(parts_of(ledger.totals[0]), PARTS) == spent * 10**40
        if not granted and chance.random() < 0.7:
            filled += spent == 1
            ledger, spent = DatasetLedger.new("census", plan, 0), Fraction(0)
    assert many > 1_500
    assert filled or load.policy is not BASIC


def _has_parts(cost: Fraction) -> bool:
    return PARTS * 10**40 % cost.denominator == 0


@given(st.lists(st.fractions(min_value=0, max_value=1, max_denominator=10**6), max_size=60))
def test_no_sum_of_any_fractions_is_admitted_beyond_the_budget(costs: list[Fraction]) -> None:
    """Those without parts, too: their scale is rounded by nobody but the price."""
    plan = plan_of(BASIC)
    ledger, spent = DatasetLedger.new("census", plan, 0), Fraction(0)
    exactly = True
    for cost in costs:
        if not Fraction(1, 10**12) <= cost:
            continue
        claim = c.Laplace(str(cost.denominator), str(cost.numerator))
        ledger, verdict = adjudicate(ledger, check_claim(claim), "person", "add_remove", 0)
        exactly = exactly and _has_parts(cost)
        if verdict.outcome is Outcome.GRANTED:
            spent += cost
        elif exactly:
            assert spent + cost > 1
        assert spent <= 1
        assert Fraction(parts_of(ledger.totals[0]), PARTS) >= spent * 10**40
