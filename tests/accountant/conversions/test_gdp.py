"""Gaussian DP: the profile, its inverses, and what a pure mechanism needs."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant.amounts import precise
from accountant.conversions.gdp import gdp_capacity, gdp_log_delta, mu_of_pure
from tests.accountant.conversions import gaussian
from tests.accountant.conversions.gaussian import real
from tests.accountant.formulas.gdp import gdp_delta, gdp_epsilon
from tests.every_case import check_each
from tests.nightly import examples

MUS = ["1e-12", "1e-6", "0.001", "0.05", "0.2", "1", "3", "10", "45"]
EPSILONS = ["0", "1e-12", "1e-6", "0.1", "1", "4", "30", "1000"]


def log_delta(mu: str, epsilon: str) -> mpmath.mpf:
    """Return ln delta_mu(epsilon), to more digits than ours has."""
    m, e = real(mu), real(epsilon)
    x = e / m - m / 2
    if x > 60:  # phi(x) (R(x) - R(x + mu)) by the asymptotic series of R
        with mpmath.workdps(160):

            def ratio(at: mpmath.mpf) -> mpmath.mpf:
                terms = ((-1) ** k * mpmath.fac2(2 * k - 1) / at ** (2 * k + 1) for k in range(60))
                return mpmath.fsum(terms)

            gap = mpmath.log(ratio(x) - ratio(x + m))
            return gap - x * x / 2 - mpmath.log(2 * mpmath.pi) / 2
    with mpmath.workdps(2 * gaussian.DIGITS + int(m * m / 4) + int(x * x / 4)):
        found = gaussian.delta(real(mu), real(epsilon))
        if found < 0.5:
            return mpmath.log(found)
        return mpmath.log1p(-gaussian.rest(real(mu), real(epsilon)))


def test_the_profile_is_rounded_up_at_every_size() -> None:
    def check_case(mu: str, epsilon: str) -> None:
        with mpmath.workdps(80):
            exact = log_delta(mu, epsilon)
            ours = real(gdp_log_delta(mu=Decimal(mu), epsilon=Decimal(epsilon)))
            assert exact <= ours <= exact + abs(exact) * mpmath.mpf(10) ** -28
            value = gdp_delta(mu=Decimal(mu), epsilon=Decimal(epsilon))
            assert 0 < value <= 1
            if exact > -1_000_000:
                close = mpmath.mpf(10) ** -20
                assert mpmath.exp(exact) <= real(value) <= mpmath.exp(exact) * (1 + close)

    check_each(check_case, MUS, EPSILONS)


def test_mu_0_has_delta_0_and_epsilon_0() -> None:
    assert gdp_delta(mu=Decimal(0), epsilon=Decimal(0)) == 0
    assert gdp_log_delta(mu=Decimal(0), epsilon=Decimal(1)) == Decimal("-Infinity")
    assert gdp_epsilon(mu=Decimal(0), delta=Decimal("1e-6")) == 0
    assert mu_of_pure(Decimal(0)) == 0


def test_fractions_are_rounded_the_safe_way() -> None:
    third = gdp_log_delta(mu=Fraction(1, 3), epsilon=Fraction(1, 3))
    with mpmath.workdps(80):
        exact = mpmath.log(gaussian.delta(mpmath.mpf(1) / 3, mpmath.mpf(1) / 3))
        assert exact <= real(third) <= exact + mpmath.mpf(10) ** -28


def test_a_capacity_is_the_largest_mu_rounded_down() -> None:
    def check_case(epsilon: str, delta: str) -> None:
        mu = gdp_capacity(epsilon=Decimal(epsilon), delta=Decimal(delta))
        with precise():
            log = Decimal(delta).ln()
        assert gdp_log_delta(mu=mu, epsilon=Decimal(epsilon)) <= log
        more = mu * (1 + Decimal("1e-20"))
        assert gdp_log_delta(mu=more, epsilon=Decimal(epsilon)) > log

    check_each(
        check_case,
        ["0", "1e-12", "0.001", "1", "50", "1000"],
        ["1e-300", "1e-40", "1e-6", "0.5", "0.99", "0.9999999999999"],
    )


def test_an_epsilon_is_the_least_one_rounded_up() -> None:
    def check_case(mu: str, delta: str) -> None:
        epsilon = gdp_epsilon(mu=Decimal(mu), delta=Decimal(delta))
        with mpmath.workdps(80):
            if not epsilon:
                assert gaussian.delta(real(mu), mpmath.mpf(0)) <= real(delta)
                return
            text = str(epsilon)
            assert log_delta(mu, text) <= mpmath.log(real(delta))
            less = str(epsilon * (1 - Decimal("1e-14")))
            assert log_delta(mu, less) > mpmath.log(real(delta))

    check_each(
        check_case, ["1e-6", "0.05", "1", "10", "45"], ["1e-300", "1e-40", "1e-6", "0.3", "0.9999"]
    )


def test_an_epsilon_just_above_zero_keeps_its_digits() -> None:
    """delta is 1e-15 relatively below delta_1(0): the difference decides epsilon."""
    with mpmath.workdps(80):
        at_zero = gaussian.delta(mpmath.mpf(1), mpmath.mpf(0))
        delta = Decimal(mpmath.nstr(at_zero * (1 - mpmath.mpf(10) ** -15), 50))
        ours = real(gdp_epsilon(mu=Decimal(1), delta=delta))
        exact = mpmath.findroot(
            lambda e: gaussian.delta(mpmath.mpf(1), e) - real(delta), (at_zero - real(delta)) * 3
        )
        assert exact <= ours <= exact * (1 + mpmath.mpf(10) ** -12)


@pytest.mark.parametrize("delta", ["0", "1", "1.5"])
def test_a_delta_that_is_no_probability_is_refused(delta: str) -> None:
    with pytest.raises(ArithmeticError):
        gdp_capacity(epsilon=Decimal(1), delta=Decimal(delta))


def test_the_mu_of_pure_dp_is_the_least_one_rounded_up() -> None:
    def check_case(epsilon: str) -> None:
        mu, e = real(mu_of_pure(Decimal(epsilon))), real(epsilon)
        with mpmath.workdps(120):
            # Total variation of the two: by what is left of 1 where it is near 1.
            ours, needed = 2 * gaussian.upper_tail(mu / 2), 2 / (1 + mpmath.exp(e))
            if e < 1:
                ours, needed = -mpmath.erf(mu / mpmath.sqrt(8)), -mpmath.tanh(e / 2)
            assert needed - abs(needed) * mpmath.mpf(10) ** -22 <= ours <= needed

    check_each(check_case, ["1e-30", "1e-12", "1e-3", "0.3", "0.999999", "1", "1.5", "30", "1000"])


@settings(max_examples=examples(40), deadline=None)
@given(
    st.integers(-9, 2),
    st.integers(-9, 2),
    st.integers(1, 99),
    st.integers(1, 99),
    st.integers(1, 9),
)
def test_delta_grows_with_mu_and_falls_with_epsilon(
    a: int, b: int, mu: int, epsilon: int, more: int
) -> None:
    m, e = Decimal(mu).scaleb(a - 1), Decimal(epsilon).scaleb(b - 1)
    here = gdp_log_delta(mu=m, epsilon=e)
    step = Decimal(1) + Decimal(more) / 1000
    assert gdp_log_delta(mu=m * step, epsilon=e) > here
    assert gdp_log_delta(mu=m, epsilon=e * step) < here


@pytest.mark.parametrize(
    ("mu", "delta"),
    [
        ("1", "0.3829249225480262"),
        ("0.5", "0.19741265136584727"),
        ("3", "0.86638559746228"),
        ("0.001", "0.0003989422637788382"),
    ],
)
def test_an_epsilon_of_nearly_nothing_is_found(mu: str, delta: str) -> None:
    ours = gdp_epsilon(mu=Decimal(mu), delta=Decimal(delta))
    with mpmath.workdps(80):
        maximum = real(delta)
        assert gaussian.delta(real(mu), real(ours)) <= maximum
        assert gaussian.delta(real(mu), real(ours) * (1 - mpmath.mpf(10) ** -9)) > maximum


def test_an_epsilon_below_all_digits_is_bounded() -> None:
    mu, delta = "0.339", "0.134596627639549872789224922775706563409414053946084310030890"
    ours = gdp_epsilon(mu=Decimal(mu), delta=Decimal(delta))
    assert 0 < ours < Decimal("1e-25")
    with mpmath.workdps(80):
        assert gaussian.delta(real(mu), real(ours)) <= real(delta)
