"""Conversions of Renyi divergences against 80 digits and against what they promise."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from accountant.conversions.renyi_dp import budget_cks
from tests.accountant.formulas.renyi_dp import budget_mironov, c_alpha, epsilon_cks, epsilon_mironov
from tests.accountant.formulas.renyi_mixture import mixture_delta
from tests.accountant.formulas.renyi_optimal import budget_optimal
from tests.accountant.strategies import decimals
from tests.nightly import examples

MP = mpmath.mp.clone()
MP.dps = 250
LOOSE = MP.mpf(10) ** -12
ORDERS = st.one_of(
    st.integers(2, 300).map(str),
    decimals(-4, 5).map(lambda text: str(1 + Decimal(text))),
)
FEWER = ORDERS.filter(lambda order: Decimal(order) <= 2000)
EPSILONS = decimals(-6, 2)
DELTAS = st.one_of(decimals(-40, -2), st.sampled_from(["0.05", "0.3", "0.9"]))


def real(value: str | Decimal | Fraction) -> mpmath.mpf:
    fraction = Fraction(value)
    return MP.mpf(fraction.numerator) / fraction.denominator


def log_c(order: str) -> mpmath.mpf:
    alpha = real(order)
    return (alpha - 1) * MP.log(1 - 1 / alpha) - MP.log(alpha)


def is_above(ours: Decimal, exact: mpmath.mpf) -> None:
    assert exact <= real(ours) <= exact + abs(exact) * LOOSE + LOOSE


def is_below(ours: Decimal, exact: mpmath.mpf) -> None:
    assert exact - abs(exact) * LOOSE - LOOSE <= real(ours) <= exact


@settings(max_examples=examples(150), deadline=None)
@given(ORDERS, EPSILONS, DELTAS)
def test_the_bounds_at_one_order(order: str, amount: str, delta: str) -> None:
    alpha, value, d = Decimal(order), Decimal(amount), Decimal(delta)
    mironov = -MP.log(real(delta)) / (real(order) - 1)
    cks = mironov + log_c(order) / (real(order) - 1)
    is_above(c_alpha(alpha), MP.exp(log_c(order)))
    is_above(epsilon_mironov(alpha, spent=value, delta=d), real(amount) + mironov)
    is_above(epsilon_cks(alpha, spent=value, delta=d), real(amount) + cks)
    is_below(budget_mironov(alpha, epsilon=value, delta=d), real(amount) - mironov)
    is_below(budget_cks(alpha, epsilon=value, delta=d), real(amount) - cks)


@pytest.mark.parametrize("order", ["1.5", "4", "64"])
def test_c_alpha_is_the_largest_ratio_of_a_hockey_stick_to_a_moment(order: str) -> None:
    # (1 - e^-x)_+ <= c e^((alpha-1) x), with equality at e^x = alpha/(alpha-1).
    power = real(order) - 1
    c = real(c_alpha(Decimal(order)))
    for k in range(1, 400):
        x = MP.mpf(k) / 50 / power
        assert -MP.expm1(-x) <= c * MP.exp(power * x)
    touching = MP.log1p(1 / power)
    assert -MP.expm1(-touching) >= c * MP.exp(power * touching) * (1 - LOOSE)


def bernoulli(order: str, epsilon: str, delta: str, p: mpmath.mpf) -> mpmath.mpf:
    """Return D_alpha of Bernoulli(p) from Bernoulli(q), where p - e^epsilon q = delta."""
    alpha = real(order)
    q = (p - real(delta)) * MP.exp(-real(epsilon))
    moment = p**alpha * q ** (1 - alpha) + (1 - p) ** alpha * (1 - q) ** (1 - alpha)
    return MP.log(moment) / (alpha - 1)


def least_bernoulli(order: str, epsilon: str, delta: str) -> mpmath.mpf:
    """Return the least of them, by bisecting their difference quotient."""
    d = real(delta)

    def at(z: mpmath.mpf) -> mpmath.mpf:
        # From delta (z = -oo) to 1 (z = oo).
        return bernoulli(order, epsilon, delta, d + (1 - d) / (1 + MP.exp(-z)))

    low, high, step = MP.mpf(-400), MP.mpf(400), MP.mpf(10) ** -60
    for _ in range(190):
        middle = (low + high) / 2
        low, high = (low, middle) if at(middle + step) > at(middle) else (middle, high)
    return min(at(low), at(high))


@pytest.mark.slow
@settings(max_examples=examples(30), deadline=None)
@given(ORDERS, EPSILONS, DELTAS)
@example("2", "74.06", "1e-34")  # the minimum lies next to the end of its range
def test_the_optimal_budget_is_the_least_of_all_pairs_of_coins(
    order: str, epsilon: str, delta: str
) -> None:
    alpha, e, d = Decimal(order), Decimal(epsilon), Decimal(delta)
    ours = real(budget_optimal(alpha, epsilon=e, delta=d))
    minimum = least_bernoulli(order, epsilon, delta)
    assert minimum * (1 - LOOSE) <= ours <= minimum
    for p in (real(d) * (1 + MP.mpf(10) ** k) for k in range(-9, 40)):
        assert p >= 1 or ours <= bernoulli(order, epsilon, delta, p)


@settings(max_examples=examples(60), deadline=None)
@given(ORDERS, EPSILONS, DELTAS)
def test_the_budgets_stand_in_their_order(order: str, epsilon: str, delta: str) -> None:
    alpha, e, d = Decimal(order), Decimal(epsilon), Decimal(delta)
    plain = budget_mironov(alpha, epsilon=e, delta=d)
    sharper = budget_cks(alpha, epsilon=e, delta=d)
    assert plain < sharper <= budget_optimal(alpha, epsilon=e, delta=d)


@settings(max_examples=examples(25), deadline=None)
@given(
    # Beyond these a delta has 10^8 digits: no reference could hold it.
    decimals(-6, 1),
    st.lists(st.tuples(FEWER, st.integers(1, 9), decimals(-3, 1)), min_size=1, max_size=4),
)
def test_the_mixture_is_the_supremum_over_losses(
    epsilon: str, parts: list[tuple[str, int, str]]
) -> None:
    total = sum(weight for _, weight, _ in parts)
    weights = [Fraction(weight, total) for _, weight, _ in parts]
    orders = [Decimal(order) for order, _, _ in parts]
    spent = [Decimal(s) for _, _, s in parts]
    ours = real(mixture_delta(Decimal(epsilon), orders=orders, weights=weights, spent=spent))

    def at(x: mpmath.mpf) -> mpmath.mpf:
        terms = (
            real(w) * MP.exp((real(a) - 1) * (x + real(epsilon) - real(s)))
            for a, w, s in zip(orders, weights, spent, strict=True)
        )
        return -MP.expm1(-x) / sum(terms)

    # The orders lie between 1 + 1e-4 and 1e6: so does e^x/(e^x - 1) at the maximum.
    low, high, step = MP.mpf(-14), MP.mpf(3), MP.mpf(10) ** -60
    for _ in range(100):
        middle = (low + high) / 2
        rises = at(MP.exp(middle + step)) > at(MP.exp(middle))
        low, high = (middle, high) if rises else (low, middle)
    best = at(MP.exp(low))
    assert best <= ours <= best * (1 + LOOSE)


def test_one_order_is_canonne_kamath_and_steinke() -> None:
    spent, delta = Decimal("0.3"), Decimal("1e-6")
    epsilon = epsilon_cks(Decimal(16), spent=spent, delta=delta)
    ours = mixture_delta(epsilon, orders=[Decimal(16)], weights=[Fraction(1)], spent=[spent])
    assert Decimal("0.999999999999e-6") < ours <= delta


def test_a_delta_beyond_every_float_is_still_computed() -> None:
    ours = mixture_delta(
        Decimal(200), orders=[Decimal(400)], weights=[Fraction(1)], spent=[Decimal(1)]
    )
    assert Decimal("1e-40000") < ours < Decimal("1e-30000")


@settings(max_examples=examples(30), deadline=None)
@given(ORDERS, EPSILONS)
def test_a_delta_above_one_over_the_order_leaves_room_beyond_epsilon(
    order: str, epsilon: str
) -> None:
    delta = Decimal("0.9")
    assume(Decimal(order) * delta >= 1)
    ours = real(budget_optimal(Decimal(order), epsilon=Decimal(epsilon), delta=delta))
    exact = real(epsilon) - MP.log1p(-real(delta))
    assert exact * (1 - LOOSE) <= ours <= exact
