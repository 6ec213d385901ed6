"""zCDP: what claims are worth in it, and its two conversions to (epsilon, delta)-DP."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest

from accountant.amounts import precise
from accountant.conversions.standard_zcdp import standard_epsilon
from accountant.conversions.tight_zcdp import capacity, tight_epsilon
from accountant.conversions.zcdp import bounded_range_rho, laplace_rho, pure_rho
from tests.accountant.conversions.gaussian import real
from tests.accountant.formulas.tight_zcdp import tight_log_delta
from tests.accountant.formulas.zcdp import bounded_range_mean_loss, pure_rho_half, standard_capacity
from tests.every_case import check_each

RHOS = ["1e-40", "1e-25", "1e-12", "1e-4", "0.1", "1", "10", "1000", "1e6"]
DELTAS = ["1e-300", "1e-40", "1e-6", "0.5", "0.99", "0.99999999999"]


def precise_log(delta: str) -> Decimal:
    with precise():
        return Decimal(delta).ln()


def bound_of(a: mpmath.mpf, rho: mpmath.mpf, epsilon: mpmath.mpf) -> mpmath.mpf:
    """Return ln delta'(rho, epsilon) at alpha = 1 + a, as section 1 displays it."""
    alpha = 1 + a
    return a * (alpha * rho - epsilon) + alpha * mpmath.log(a / alpha) - mpmath.log(a)


def best_order(rho: mpmath.mpf, epsilon: mpmath.mpf) -> mpmath.mpf:
    """Return alpha - 1 at which (2 alpha - 1) rho + ln(1 - 1/alpha) = epsilon, by bisection."""

    def above(log: mpmath.mpf) -> bool:
        a = mpmath.exp(log)
        return bool((1 + 2 * a) * rho + log - mpmath.log1p(a) > epsilon)

    low, high = mpmath.mpf(-1), mpmath.mpf(1)
    while above(low):
        low *= 2
    while not above(high):
        high *= 2
    for _ in range(500):
        middle = (low + high) / 2
        low, high = (low, middle) if above(middle) else (middle, high)
    return mpmath.exp(low)


def test_the_tight_delta_is_the_least_over_all_orders() -> None:
    def check_case(rho: str, epsilon: str) -> None:
        ours = real(tight_log_delta(rho=Decimal(rho), epsilon=Decimal(epsilon)))
        # The displayed formula takes ln(1 - 1/alpha) from an alpha that is near 1 if rho is large.
        with mpmath.workdps(1000 if rho == "1000" else 200):
            r, e = real(rho), real(epsilon)
            a = best_order(r, e)
            exact = bound_of(a, r, e)
            assert exact - abs(exact) * mpmath.mpf(10) ** -60 <= ours
            assert ours <= exact + abs(exact) * mpmath.mpf(10) ** -24
            for other in (a / 3, a * mpmath.mpf("0.99"), a * mpmath.mpf("1.01"), a * 3):
                assert bound_of(other, r, e) > exact

    check_each(check_case, RHOS[:-1], ["0", "1e-12", "0.01", "1", "1000"])


def test_the_tight_epsilon_is_the_inverse_of_the_tight_delta() -> None:
    def check_case(rho: str, delta: str) -> None:
        epsilon = tight_epsilon(rho=Decimal(rho), delta=Decimal(delta))
        log = precise_log(delta)
        close = abs(log) * Decimal("1e-18")
        assert tight_log_delta(rho=Decimal(rho), epsilon=epsilon) <= log + close
        if epsilon:
            less = epsilon * (1 - Decimal("1e-10"))
            assert tight_log_delta(rho=Decimal(rho), epsilon=less) > log

    check_each(check_case, RHOS, DELTAS)


def test_a_tight_capacity_is_the_inverse_of_the_tight_delta() -> None:
    def check_case(epsilon: str, delta: str) -> None:
        rho = capacity(epsilon=Decimal(epsilon), delta=Decimal(delta))
        log = precise_log(delta)
        assert tight_log_delta(rho=rho, epsilon=Decimal(epsilon)) <= log
        more = rho * (1 + Decimal("1e-12"))
        assert tight_log_delta(rho=more, epsilon=Decimal(epsilon)) > log

    check_each(check_case, ["1e-12", "0.001", "1", "1000"], DELTAS[1:])


def test_no_loss_needs_no_epsilon() -> None:
    assert tight_epsilon(rho=Decimal(0), delta=Decimal("1e-9")) == 0
    assert standard_epsilon(rho=Decimal(0), delta=Decimal("1e-9")) == 0
    assert tight_log_delta(rho=Decimal(0), epsilon=Decimal(0)) == Decimal("-Infinity")


def test_the_standard_conversion_and_its_inverse() -> None:
    def check_case(rho: str, delta: str) -> None:
        with mpmath.workdps(80):
            r, log = real(rho), -mpmath.log(real(delta))
            exact = r + 2 * mpmath.sqrt(r * log)
            epsilon = standard_epsilon(rho=Decimal(rho), delta=Decimal(delta))
            assert exact <= real(epsilon) <= exact * (1 + mpmath.mpf(10) ** -40)
            back = real(standard_capacity(epsilon=epsilon, delta=Decimal(delta)))
            assert abs(back / r - 1) < mpmath.mpf(10) ** -38
            at_back = real(standard_epsilon(rho=Fraction(rho), delta=Fraction(delta)))
            assert at_back == real(epsilon)
        if delta != "1":
            assert tight_epsilon(rho=Decimal(rho), delta=Decimal(delta)) <= epsilon

    check_each(check_case, ["1e-30", "1e-4", "0.3", "100"], ["1e-300", "1e-6", "0.5", "1"])


@pytest.mark.parametrize("delta", ["0", "1.1", "-1"])
def test_a_delta_that_is_no_probability_is_refused(delta: str) -> None:
    for convert in (tight_epsilon, standard_epsilon):
        if convert is tight_epsilon and Decimal(delta) > 1:
            continue  # any delta from 1 on needs no epsilon
        with pytest.raises(ArithmeticError, match="probability"):
            convert(rho=Decimal(1), delta=Decimal(delta))


@pytest.mark.parametrize("epsilon", ["1e-40", "1e-12", "0.001", "1", "30", "1000"])
def test_the_rho_of_each_mechanism_is_rounded_up(epsilon: str) -> None:
    with mpmath.workdps(300):
        e = real(epsilon)
        u = e / mpmath.expm1(e)
        close = 1 + mpmath.mpf(10) ** -29
        for ours, exact in (
            (pure_rho(Fraction(epsilon)), e * mpmath.tanh(e / 2)),
            (laplace_rho(Fraction(epsilon)), e + mpmath.expm1(-e)),
            (pure_rho_half(Fraction(epsilon)), e**2 / 2),
            (bounded_range_rho(Fraction(epsilon)), e**2 / 8),
        ):
            assert exact <= real(ours) * (1 + mpmath.mpf(10) ** -200)
            assert real(ours) <= exact * close
        mean = real(bounded_range_mean_loss(Fraction(epsilon)))
        exact = u - 1 - mpmath.log(u)
        assert exact / close <= mean <= exact
        # No rho can be below the mean loss, and none here needs more than the simple one.
        assert mean < e**2 / 8
        assert real(pure_rho(Fraction(epsilon))) < e**2 / 2 * close
