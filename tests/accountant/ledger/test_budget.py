"""Invariant 1: the exact sum of what grants cost never exceeds the budget, at any prefix."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import mpmath
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant import claims as c
from accountant.amounts import INFINITE, UNIT
from accountant.claims import check_claim
from accountant.claims.price import price
from accountant.records.outcomes import Outcome
from tests.accountant import exact
from tests.accountant.strategies import atoms, claims
from tests.accountant.world import World, code, opened
from tests.nightly import examples

MOST = mpmath.mpf(1) + mpmath.mpf(10) ** -60  # the reference's own 80 digits


def parts(claim: c.Claim) -> list[tuple[c.Claim, int]]:
    """Return the single mechanisms of a claim, written without our own `atoms`."""
    if isinstance(claim, c.Repeat):
        return [(part, n * claim.times) for part, n in parts(claim.claim)]
    if isinstance(claim, c.AllOf):
        return [found for part in claim.claims for found in parts(part)]
    return [(claim, 1)]


def granted(world: World, sequence: list[c.Claim]) -> list[list[tuple[c.Claim, int]]]:
    return [
        parts(claim)
        for claim in sequence
        if world.ask(msgspec.to_builtins(claim)).outcome is Outcome.GRANTED
    ]


SEQUENCES = st.lists(claims(small=-4, large=0), max_size=30)


@settings(max_examples=examples(60), deadline=None)
@given(SEQUENCES)
def test_basic_never_exceeds_epsilon_or_delta(sequence: list[c.Claim]) -> None:
    world = opened(filter="basic", epsilon="0.7", delta="1e-8")
    epsilon, delta = Fraction(0), Fraction(0)
    for claim in granted(world, sequence):
        for part, times in claim:
            spent = exact.epsilon(part)
            assert spent is not None
            epsilon += spent * times
            delta += exact.delta(part) * times
        assert epsilon <= Fraction("0.7")
        assert delta <= Fraction("1e-8")


@settings(max_examples=examples(60), deadline=None)
@given(SEQUENCES)
def test_zcdp_never_exceeds_rho_or_delta(sequence: list[c.Claim]) -> None:
    world = opened(filter="zcdp", rho="0.05", delta="1e-8")
    rho, delta = mpmath.mpf(0), Fraction(0)
    for claim in granted(world, sequence):
        rho += sum(exact.rho(part) * times for part, times in claim)
        delta += sum((exact.delta(part) * times for part, times in claim), Fraction(0))
        assert rho <= mpmath.mpf("0.05") * MOST
        assert delta <= Fraction("1e-8")


@cache
def tight_rho() -> mpmath.mpf:
    """Return the rho of (1, 1e-6), found when it is asked for: it takes a second."""
    return exact.tight_capacity(mpmath.mpf(1), mpmath.mpf("1e-6"))


@settings(max_examples=examples(60), deadline=None)
@given(SEQUENCES)
def test_zcdp_tight_never_exceeds_the_tight_conversion(sequence: list[c.Claim]) -> None:
    world = opened(epsilon="1", delta="1.01e-6", delta_for_claims="1e-8")
    rho, delta = mpmath.mpf(0), Fraction(0)
    for claim in granted(world, sequence):
        rho += sum(exact.rho(part) * times for part, times in claim)
        delta += sum((exact.delta(part) * times for part, times in claim), Fraction(0))
        assert rho <= tight_rho() * (1 + mpmath.mpf(10) ** -15)
        assert delta <= Fraction("1e-8")


@settings(max_examples=examples(60), deadline=None)
@given(SEQUENCES)
def test_fully_adaptive_never_exceeds_its_formula(sequence: list[c.Claim]) -> None:
    world = opened(filter="fully_adaptive", epsilon="1.5", delta="1e-6")
    v = mpmath.mpf(0)
    for claim in granted(world, sequence):
        v += sum(exact.intrinsic_time(part) * times for part, times in claim)
        bound = mpmath.sqrt(2 * mpmath.log(10**6) * v) + v / 2
        assert bound <= mpmath.mpf("1.5") * MOST


@settings(max_examples=examples(200), deadline=None)
@given(atoms(small=-12, large=2))
def test_a_cost_brackets_the_exact_one(claim: c.Claim) -> None:
    names = ("rho", "intrinsic_time", "delta", "epsilon")
    amounts = dict(zip(names, price(check_claim(claim), names).amounts, strict=True))
    loose = 1 + mpmath.mpf(10) ** -12
    grid = mpmath.mpf(10) ** -40
    for name, due in (("rho", exact.rho(claim)), ("intrinsic_time", exact.intrinsic_time(claim))):
        ours = exact.units(amounts[name])
        assert due <= ours * MOST
        assert ours <= due * loose + grid
    assert amounts["delta"] == exact.delta(claim) * UNIT
    epsilon = exact.epsilon(claim)
    if epsilon is None:
        assert amounts["epsilon"] == INFINITE
    else:
        ours = Fraction(int(amounts["epsilon"]), UNIT)
        assert epsilon <= ours <= epsilon * (1 + Fraction(1, 10**12)) + Fraction(1, UNIT)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(atoms(small=-8, large=0), min_size=1, max_size=6), st.integers(1, 1000))
def test_a_batch_costs_exactly_the_sum_of_its_parts(singles: list[c.Claim], times: int) -> None:
    sums = ("rho", "delta", "loss_time", "loss_delta", "loss_shift", "epsilon", "intrinsic_time")
    single = [price(check_claim(claim), sums).amounts for claim in singles]
    together = price(check_claim(c.AllOf(tuple(singles))), sums)
    assert together.amounts == tuple(map(sum, zip(*single, strict=True)))
    assert together.mechanisms == len(singles)
    repeated = price(check_claim(c.Repeat(c.AllOf(tuple(singles)), times)), sums)
    assert repeated.amounts == tuple(amount * times for amount in together.amounts)


def test_a_million_tiny_requests_do_not_drift() -> None:
    world = opened(filter="basic", epsilon="1")
    for _ in range(10):
        assert code(world.ask("100000*pure:1e-6")) == "granted"
    assert world.ledger().totals[0] == UNIT
    assert world.ledger().mechanisms == 1_000_000
    assert code(world.ask("pure:1e-12")) == "exhausted"


@pytest.mark.slow
def test_a_million_single_charges_do_not_drift() -> None:
    plan = opened(epsilon="1", delta="1e-6").ledger().plan
    asked = price(check_claim(c.Pure("1e-6")), plan.sums)
    spent = (0, 0)
    for _ in range(1_000_000):
        after = plan.kind.charge(plan.capacity, spent, asked)
        assert after is not None
        spent = (int(after[0]), int(after[1]))
    assert spent[0] == 1_000_000 * int(asked.amounts[0])
    due = 1_000_000 * exact.rho(c.Pure("1e-6"))
    assert due <= exact.units(spent[0]) <= due * (1 + mpmath.mpf(10) ** -12)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", ["0.01", "0.1", "0.5"])
def test_tight_capacity_is_the_reference_rounded_down(epsilon: str) -> None:
    ours = exact.units(opened(epsilon=epsilon, delta="1e-6").ledger().plan.capacity[0])
    due = exact.tight_capacity(mpmath.mpf(epsilon), mpmath.mpf("1e-6"))
    assert due * (1 - mpmath.mpf(10) ** -12) <= ours <= due * (1 + mpmath.mpf(10) ** -15)
