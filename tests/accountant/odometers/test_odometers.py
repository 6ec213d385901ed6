"""Odometers read outward, and infinity where they promise nothing."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant import claims as c
from accountant.amounts import UNIT, Units
from accountant.claims import checked
from accountant.odometers import Odometer, Reader, sums_of
from accountant.odometers.basic import Basic
from accountant.odometers.linear import Linear
from accountant.odometers.mixture import Mixture
from accountant.odometers.one_sided_mixture import OneSidedMixture
from accountant.odometers.stitched import Stitched
from accountant.totals import price
from tests.accountant import exact
from tests.accountant.world import opened

D, P = "1e-6", "0.01"
ALL: list[Odometer] = [Basic(), Linear(D, P), Mixture(D, P), OneSidedMixture(D, P), Stitched(D, P)]
LOSS = ("loss_time", "loss_epsilon", "loss_delta", "loss_shift")


def formula(odometer: Odometer, v: mpmath.mpf) -> mpmath.mpf:
    """Return a bound as the theory page displays it."""
    log = -mpmath.log(exact.real(D))
    p = exact.real(P)
    match odometer:
        case Linear():
            root = mpmath.sqrt(2 * log)
            return mpmath.sqrt(2 * p * log) / 2 + root / (2 * mpmath.sqrt(p)) * v + v / 2
        case Mixture():
            inner = log + mpmath.log(mpmath.sqrt((v + p) / p))
            return mpmath.sqrt(2 * (v + p) * inner) + v / 2
        case OneSidedMixture():
            inner = mpmath.log(mpmath.sqrt((v + p) / p) / (2 * exact.real(D)) + 1)
            return mpmath.sqrt(2 * (v + p) * inner) + v / 2
        case Stitched():
            if v < p:
                return mpmath.inf
            inner = mpmath.log(mpmath.log(2 * v / p))
            inner += exact.real("0.72") * mpmath.log(exact.real("5.2") / exact.real(D))
            return exact.real("1.7") * mpmath.sqrt(v * inner) + v / 2
    return v


def read(odometer: Odometer, claims: list[c.Claim], *, delta_for_claims: int = UNIT) -> float:
    sums = ("rho", *LOSS)
    assert set(sums_of(odometer)) <= set(sums)
    totals: list[Units] = [0] * len(sums)
    for claim in claims:
        totals = [a + b for a, b in zip(totals, price(checked(claim), sums).amounts, strict=True)]
    return Reader(odometer, sums, delta_for_claims)(tuple(totals))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(ALL), st.integers(0, 10**45))
def test_a_reading_is_the_formula_rounded_up(odometer: Odometer, units: int) -> None:
    totals = (units, units, 0, 0)
    ours = Reader(odometer, LOSS, 0)(totals)
    due = formula(odometer, exact.units(units))
    assert mpmath.mpf(ours) >= due
    if mpmath.isfinite(due):
        assert mpmath.mpf(ours) <= due * (1 + mpmath.mpf(10) ** -9) + mpmath.mpf(10) ** -30


@settings(max_examples=100)
@given(st.sampled_from(ALL), st.integers(10**39, 10**44), st.integers(1, 10**44))
def test_a_reading_never_falls(odometer: Odometer, units: int, more: int) -> None:
    reader = Reader(odometer, LOSS, 0)
    after = units + more
    # Rounding up may put two nearly equal sums in the other order by an ulp or two.
    assert reader((units, units, 0, 0)) <= reader((after, after, 0, 0)) * (1 + 1e-13)


def test_stitched_is_infinite_below_v0_and_finite_from_it_on() -> None:
    reader = Reader(Stitched(D, P), LOSS, 0)
    v0 = UNIT // 100
    assert reader((v0 - v0 // 10**12, 0, 0, 0)) == math.inf
    assert reader((v0, 0, 0, 0)) < math.inf


@pytest.mark.parametrize("odometer", ALL, ids=lambda o: type(o).__name__)
class TestClaimsWithoutALossBound:
    def test_approximate_zcdp_has_none(self, odometer: Odometer) -> None:
        assert read(odometer, [c.ApproximateZcdp("0.01", "1e-9")]) == math.inf

    def test_epsilon_0_with_a_delta_has_none(self, odometer: Odometer) -> None:
        assert read(odometer, [c.Approximate("0", "1e-9")]) == math.inf
        assert read(odometer, [c.Probabilistic("0", "1e-9")]) == math.inf

    def test_a_delta_that_no_probability_follows_from_has_none(self, odometer: Odometer) -> None:
        assert read(odometer, [c.Approximate("0.01", "0.1")]) == math.inf

    def test_infinity_stays(self, odometer: Odometer) -> None:
        claims = [c.ApproximateZcdp("0.01", "1e-9"), *[c.Pure("0.1")] * 3]
        assert read(odometer, claims) == math.inf

    def test_beyond_delta_for_claims_it_is_infinite(self, odometer: Odometer) -> None:
        claim = [c.Probabilistic("0.3", "1e-9")]
        at = UNIT // 10**9
        assert read(odometer, claim, delta_for_claims=at) < math.inf
        assert read(odometer, claim, delta_for_claims=at - 1) == math.inf
        assert read(odometer, [c.Approximate("0.3", "1e-9")], delta_for_claims=at) == math.inf


def test_basic_needs_an_epsilon() -> None:
    assert read(Basic(), [c.Pure("0.1"), c.Laplace("10", "1")]) == pytest.approx(0.2, rel=1e-12)
    for claim in (c.Gaussian("10", "1"), c.Zcdp("0.01"), c.Gdp("0.1")):
        assert read(Basic(), [claim]) == math.inf


TIMES: list[tuple[c.Claim, Any]] = [
    (c.Pure("0.3"), 2 * exact.rho(c.Pure("0.3"))),
    (c.Gaussian("10", "1"), exact.real("0.01")),
    (c.Zcdp("0.01"), exact.real("0.02")),
    (c.BoundedRange("0.2"), exact.real("0.01")),
    # With a delta: epsilon squared, never 2 epsilon tanh(epsilon/2).
    (c.Probabilistic("0.3", "1e-9"), exact.real("0.09")),
    (c.RandomizedResponse("0.3", "1e-9"), exact.real("0.09")),
    (c.Approximate("0.3", "1e-9"), exact.real("0.36")),
    (c.Approximate("0.3", "0"), 2 * exact.rho(c.Pure("0.3"))),
]


@pytest.mark.parametrize(("claim", "time"), TIMES)
def test_what_a_claim_adds_to_intrinsic_time(claim: c.Claim, time: Any) -> None:
    ours = exact.units(price(checked(claim), ("loss_time",)).amounts[0])
    assert time <= ours * (1 + mpmath.mpf(10) ** -70)
    assert ours <= time * (1 + mpmath.mpf(10) ** -18)


def test_a_delta_is_converted_and_shifts_the_reading() -> None:
    epsilon, delta = exact.real("0.3"), exact.real("1e-9")
    converted = 2 * delta / (1 - mpmath.exp(-epsilon))
    amounts = price(checked(c.Approximate("0.3", "1e-9")), LOSS).amounts
    loss_epsilon, loss_delta, loss_shift = map(exact.units, amounts[1:])
    assert loss_epsilon == exact.real("0.6")
    assert converted <= loss_delta <= converted * (1 + mpmath.mpf(10) ** -18)
    shift = -mpmath.log1p(-converted)
    assert shift <= loss_shift <= shift * (1 + mpmath.mpf(10) ** -17)
    claim = [c.Probabilistic("0.3", "1e-3")] * 5
    bare = formula(Mixture(D, P), 5 * exact.real("0.09"))
    due = bare - 5 * mpmath.log1p(-exact.real("1e-3"))
    assert due <= mpmath.mpf(read(Mixture(D, P), claim)) <= due * (1 + mpmath.mpf(10) ** -9)
    # Basic adds epsilons and no shift.
    assert read(Basic(), claim) == pytest.approx(1.5, rel=1e-12)


def test_a_decision_shows_every_reading_rounded_up_to_10_digits() -> None:
    written = [{"type": "basic"}, {"type": "mixture", "delta": D, "r": P}]
    world = opened(epsilon="1", delta="1e-6", odometers=written)
    shown = world.ask("pure:0.1").odometers
    assert shown is not None
    assert list(shown) == ["basic", "mixture"]
    due = formula(Mixture(D, P), 2 * exact.rho(c.Pure("0.1")))
    assert due <= mpmath.mpf(shown["mixture"]) <= due * (1 + mpmath.mpf(10) ** -8)
    shown = world.ask("zcdp:0.001").odometers
    assert shown is not None
    assert shown["basic"] == "inf"
