"""The normal distribution to any number of digits."""

from __future__ import annotations

from decimal import Decimal

import mpmath
import pytest

from accountant.conversions import normal
from accountant.conversions.outward import expm1, log1p, log_probability
from tests.accountant.conversions.gaussian import real
from tests.every_case import check_each

POINTS = ["1e-40", "1e-12", "0.001", "0.1", "0.5", "1", "2", "3.7", "4.99", "5", "8", "20", "45"]
DIGITS = [20, 45, 90]


def near(ours: Decimal, exact: mpmath.mpf, digits: int) -> bool:
    return bool(abs(real(ours) - exact) <= abs(exact) * mpmath.mpf(10) ** -digits)


def test_each_function_is_accurate_to_the_requested_digits() -> None:
    def check_case(x: str, digits: int) -> None:
        at = Decimal(x)
        with mpmath.workdps(700):
            exact = mpmath.mpf(x)
            tail = mpmath.erfc(exact / mpmath.sqrt(2)) / 2
            density = mpmath.npdf(exact)
            assert near(normal.mills(at, digits=digits), tail / density, digits)
            assert near(normal.central(at, digits=digits), mpmath.mpf(1) / 2 - tail, digits)
            below = mpmath.mpf(10) ** -digits
            assert abs(real(normal.log_density(at, digits=digits)) - mpmath.log(density)) < below
            assert abs(real(normal.log_upper_tail(at, digits=digits)) - mpmath.log(tail)) < below
            odd = normal.odd_series(at, digits=digits)
            assert near(odd, (mpmath.mpf(1) / 2 - tail) / density, digits)

    check_each(check_case, POINTS, DIGITS)


@pytest.mark.parametrize("x", ["-0.3", "-5", "-30"])
def test_mills_ratio_goes_below_zero(x: str) -> None:
    with mpmath.workdps(700):
        exact = mpmath.mpf(x)
        ratio = mpmath.erfc(exact / mpmath.sqrt(2)) / 2 / mpmath.npdf(exact)
        assert near(normal.mills(Decimal(x), digits=40), ratio, 40)


def test_far_out_mills_ratio_is_its_asymptotic_series() -> None:
    x = mpmath.mpf(10) ** 15
    with mpmath.workdps(80):
        series = 1 / x - 1 / x**3 + 3 / x**5 - 15 / x**7
        assert near(normal.mills(Decimal("1e15"), digits=60), series, 60)


@pytest.mark.parametrize("digits", [5, 60, 300])
def test_pi(digits: int) -> None:
    with mpmath.workdps(digits + 20):
        assert near(normal.pi(digits), mpmath.pi, digits)


@pytest.mark.parametrize("x", ["1e-500", "-1e-500", "1e-70", "3e-9", "-0.25", "0.5", "7"])
def test_logarithms_and_exponentials_lose_nothing_near_zero(x: str) -> None:
    with mpmath.workdps(1200):
        exact = mpmath.mpf(x)
        assert near(log1p(Decimal(x), digits=50), mpmath.log1p(exact), 50)
        assert near(expm1(Decimal(x), digits=50), mpmath.expm1(exact), 50)


@pytest.mark.parametrize("p", ["1e-300", "0.25", "0.75", f"0.{'9' * 80}", "1"])
def test_the_logarithm_of_a_probability(p: str) -> None:
    with mpmath.workdps(200):
        assert near(log_probability(Decimal(p), digits=50), mpmath.log(mpmath.mpf(p)), 50)


@pytest.mark.parametrize("p", ["0", "1.5", "-0.1"])
def test_the_logarithm_of_a_value_outside_0_to_1_is_refused(p: str) -> None:
    with pytest.raises(ArithmeticError, match="probability"):
        log_probability(Decimal(p), digits=20)
