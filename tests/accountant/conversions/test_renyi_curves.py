"""Renyi curves against 80 digits, against integrals of the densities, and in their order."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant.conversions.renyi import (
    bounded_range_renyi,
    laplace_renyi,
    randomized_response_renyi,
    zcdp_renyi,
)
from accountant.conversions.renyi_subsampled import MAX_TERMS, subsampled_gaussian_renyi
from tests.accountant.strategies import decimals
from tests.every_case import check_each
from tests.nightly import examples

LOOSE = Fraction(1, 10**25)
EPSILONS = decimals(-12, 2)
ORDERS = st.one_of(
    st.integers(2, 300).map(str),
    decimals(-6, 8).map(lambda text: str(1 + Decimal(text))),
)


def precise(digits: int = 400) -> mpmath.ctx_mp.MPContext:
    context = mpmath.mp.clone()
    context.dps = digits
    return context


MP = precise()


def real(value: str | Fraction | Decimal) -> mpmath.mpf:
    fraction = Fraction(value)
    return MP.mpf(fraction.numerator) / fraction.denominator


def divergence(order: str, chances: list[tuple[mpmath.mpf, mpmath.mpf]]) -> mpmath.mpf:
    """Return D_alpha(P||Q) of two laws on a few outcomes, by its definition."""
    alpha = real(order)
    moment = sum(q * MP.exp(alpha * (MP.log(p) - MP.log(q))) for p, q in chances)
    return MP.log(moment) / (alpha - 1)


def check(ours: Fraction | Decimal, exact: mpmath.mpf) -> None:
    value = Fraction(ours)
    found = MP.mpf(value.numerator) / value.denominator
    # What is exact to 400 digits may be rounded itself, and a logarithm near 0 more.
    assert exact * (1 - MP.mpf(10) ** -300) <= found <= exact * (1 + real(LOOSE))


@settings(max_examples=examples(150), deadline=None)
@given(ORDERS, EPSILONS)
def test_randomized_response_is_the_divergence_of_two_coins(order: str, epsilon: str) -> None:
    yes = 1 / (1 + MP.exp(-real(epsilon)))
    no = MP.exp(-real(epsilon)) * yes
    exact = divergence(order, [(yes, no), (no, yes)])
    check(randomized_response_renyi(Fraction(order), epsilon=Fraction(epsilon)), exact)


@settings(max_examples=examples(150), deadline=None)
@given(ORDERS, EPSILONS)
def test_laplace_is_the_moment_of_its_loss(order: str, epsilon: str) -> None:
    # The loss is epsilon left of both centres, -epsilon right of them, and in between falls
    # evenly; E e^{(alpha-1) L} under the first law, piece by piece.
    e, power = real(epsilon), real(order) - 1
    ends = MP.exp(power * e) / 2 + MP.exp(-e - power * e) / 2
    between = MP.exp(power * e) * -MP.expm1(-(2 * power + 1) * e) / (2 * (2 * power + 1))
    exact = MP.log(ends + between) / power
    check(laplace_renyi(Fraction(order), epsilon=Fraction(epsilon)), exact)


def two_losses(order: str, eta: str, t: mpmath.mpf) -> mpmath.mpf:
    """Return D_alpha where the loss is t or t - eta."""
    high, low = t, t - real(eta)
    q = -MP.expm1(low) / (MP.exp(high) - MP.exp(low))  # so that E_Q e^L = 1
    return divergence(order, [(q * MP.exp(high), q), ((1 - q) * MP.exp(low), 1 - q)])


@settings(max_examples=examples(60), deadline=None)
@given(ORDERS, EPSILONS)
def test_bounded_range_is_the_worst_of_all_pairs_of_losses(order: str, eta: str) -> None:
    ours = real(Fraction(bounded_range_renyi(Fraction(order), eta=Fraction(eta))))
    e, alpha = real(eta), real(order)
    for k in range(1, 20):
        assert two_losses(order, eta, e * k / 20) <= ours
    # The stationary t of the sheet: e^t = (alpha-1)(E-c)/(alpha(1-c)).
    c = MP.exp(-(alpha - 1) * e)
    worst = MP.log((alpha - 1) * (MP.exp(e) - c) / (alpha * (1 - c)))
    check(bounded_range_renyi(Fraction(order), eta=Fraction(eta)), two_losses(order, eta, worst))


@pytest.mark.parametrize("eta", ["1e-6", "0.1", "1", "5"])
def test_bounded_range_lies_between_an_eighth_and_randomized_response(eta: str) -> None:
    for order in (Fraction(3, 2), Fraction(2), Fraction(30), Fraction(1000)):
        ours = Fraction(bounded_range_renyi(order, eta=Fraction(eta)))
        assert ours <= order * Fraction(eta) ** 2 / 8
        assert ours <= Fraction(randomized_response_renyi(order, epsilon=Fraction(eta)))


def test_zcdp_is_exact() -> None:
    assert zcdp_renyi(Decimal("2.5"), rho=Fraction(1, 3)) == Fraction(5, 6)


RATES = st.one_of(st.just("1"), decimals(-20, -1)).filter(lambda q: 0 < Fraction(q) <= 1)
NOISES = decimals(-3, 8)


@settings(max_examples=examples(50), deadline=None)
@given(st.integers(2, 120), RATES, NOISES)
def test_a_subsampled_gaussian_is_the_binomial_moment(order: int, rate: str, noise: str) -> None:
    q, s = real(rate), real(noise)
    moment = sum(
        MP.binomial(order, k) * (1 - q) ** (order - k) * q**k * MP.exp(k * (k - 1) / (2 * s * s))
        for k in range(order + 1)
    )
    exact = MP.log(moment) / (order - 1)
    ours = subsampled_gaussian_renyi(Fraction(order), rate=Fraction(rate), noise=Fraction(noise))
    check(ours, exact)


@pytest.mark.parametrize(
    ("order", "rate", "noise"),
    [
        *(("1.25", "0.1", "1"), ("2", "0.01", "0.8"), ("3.5", "0.3", "2"), ("7.9", "0.02", "1.5")),
        *(("1.01", "0.9", "2"), ("1.125", "1e-5", "0.25"), ("1.3", "1e-4", "0.3")),
        *(("1.5", "0.5", "0.5"), ("1.7", "1e-3", "3"), ("1.9", "0.01", "0.4")),
    ],
)
def test_a_subsampled_gaussian_bounds_the_integral_in_both_directions(
    order: str, rate: str, noise: str
) -> None:
    context = precise(30)
    alpha, q, s = (context.mpf(text) for text in (order, rate, noise))

    def density(x: mpmath.mpf, centre: int) -> mpmath.mpf:
        return context.npdf(x, centre, s)

    def moment(*, swapped: bool) -> mpmath.mpf:
        def of(x: mpmath.mpf) -> mpmath.mpf:
            out, mixed = density(x, 0), (1 - q) * density(x, 0) + q * density(x, 1)
            p, q_ = (out, mixed) if swapped else (mixed, out)
            return p**alpha * q_ ** (1 - alpha)

        ends = [context.mpf(k) for k in (-40, -10, -3, 0, 3, 10, 20, 40)]
        return context.log(context.quad(of, ends)) / (alpha - 1)

    ours = Fraction(
        subsampled_gaussian_renyi(Fraction(order), rate=Fraction(rate), noise=Fraction(noise))
    )
    bound = context.mpf(ours.numerator) / ours.denominator
    adding, removing = moment(swapped=False), moment(swapped=True)
    assert removing <= adding * (1 + context.mpf(10) ** -15)
    assert adding <= bound * (1 + context.mpf(10) ** -15)
    if Fraction(order).denominator == 1:
        assert bound <= adding * (1 + context.mpf(10) ** -15)
    assert bound <= adding * context.mpf("6.3")


def test_a_sampling_rate_of_1_is_the_gaussian_and_a_rate_of_0_costs_nothing() -> None:
    noise = Fraction(2)
    everything = subsampled_gaussian_renyi(Fraction(8), rate=Fraction(1), noise=noise)
    assert everything == 1
    assert subsampled_gaussian_renyi(Fraction(8), rate=Fraction(0), noise=noise) == 0


@settings(max_examples=examples(40), deadline=None)
@given(ORDERS, RATES, NOISES)
def test_subsampling_never_costs_more_than_the_whole_gaussian(
    order: str, rate: str, noise: str
) -> None:
    alpha, s = Fraction(order), Fraction(noise)
    ours = subsampled_gaussian_renyi(alpha, rate=Fraction(rate), noise=s)
    assert 0 < Fraction(ours) <= alpha / (2 * s**2)


def test_orders_too_large_to_sum_are_charged_without_the_sample() -> None:
    order, noise = Fraction(MAX_TERMS), Fraction(50)
    ours = subsampled_gaussian_renyi(order, rate=Fraction(1, 100), noise=noise)
    assert ours == order / (2 * noise**2)


CURVES = {
    "pure": lambda order: randomized_response_renyi(order, epsilon=Fraction(1, 10)),
    "laplace": lambda order: laplace_renyi(order, epsilon=Fraction(1, 10)),
    "bounded_range": lambda order: bounded_range_renyi(order, eta=Fraction(1, 10)),
    "zcdp": lambda order: zcdp_renyi(order, rho=Fraction(1, 100)),
    "subsampled": lambda order: subsampled_gaussian_renyi(
        order, rate=Fraction(1, 10), noise=Fraction(2)
    ),
}


@pytest.mark.parametrize("name", CURVES)
@settings(max_examples=examples(40), deadline=None)
@given(st.lists(ORDERS, min_size=2, max_size=6, unique_by=Fraction))
def test_a_curve_increases_with_the_order(name: str, orders: list[str]) -> None:
    values = [Fraction(CURVES[name](Fraction(order))) for order in sorted(orders, key=Fraction)]
    assert all(before <= after * (1 + LOOSE) for before, after in pairwise(values)), (
        "a larger order costs less"
    )


def test_laplace_and_bounded_range_lie_below_randomized_response() -> None:
    def check_case(epsilon: str, order: str) -> None:
        alpha, e = Fraction(order), Fraction(epsilon)
        maximum = Fraction(randomized_response_renyi(alpha, epsilon=e))
        assert 0 < Fraction(laplace_renyi(alpha, epsilon=e)) <= maximum * (1 + LOOSE)
        assert 0 < Fraction(bounded_range_renyi(alpha, eta=e)) <= maximum * (1 + LOOSE)
        assert maximum <= e * (1 + LOOSE)
        assert maximum <= alpha * e**2 / 2 * (1 + LOOSE)

    check_each(check_case, ["1e-12", "1", "1000"], ["1.000001", "2", "22.5", "1e6", "1e9"])


@pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES)
def test_a_renyi_curve_at_epsilon_0_is_0(curve: object) -> None:
    assert randomized_response_renyi(Fraction(2), epsilon=Fraction(0)) == 0
    assert laplace_renyi(Fraction(2), epsilon=Fraction(0)) == 0
    assert bounded_range_renyi(Fraction(2), eta=Fraction(0)) == 0
