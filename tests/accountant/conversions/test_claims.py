"""Exact conversions of single claims: loss tails, refinements, Laplace noise reduction."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accountant.conversions.laplace_reduction import stay_probability
from accountant.conversions.probabilistic import double_epsilon_tail, probabilistic_delta
from accountant.conversions.zcdp import gaussian_rho
from tests.accountant.conversions.gaussian import real
from tests.accountant.formulas.brownian import refinement_mu_squared, refinement_rho
from tests.accountant.formulas.probabilistic import outside_twice_sharp
from tests.every_case import check_each

VARIANCES = st.fractions(Fraction(1, 1000), Fraction(1000))


def test_tails_of_the_loss_are_rounded_up() -> None:
    def check_case(epsilon: str, delta: str) -> None:
        with mpmath.workdps(200):
            e, d = real(epsilon), real(delta)
            kept = -mpmath.expm1(-e)
            close = 1 + mpmath.mpf(10) ** -38
            plain = real(double_epsilon_tail(epsilon=Fraction(epsilon), delta=Fraction(delta)))
            assert 2 * d / kept <= plain <= 2 * d / kept * close
            sharp = real(outside_twice_sharp(epsilon=Fraction(epsilon), delta=Fraction(delta)))
            exact = d * (1 + mpmath.exp(-2 * e)) / kept
            assert exact <= sharp <= exact * close

    check_each(
        check_case, ["1e-40", "1e-12", "0.01", "1", "20", "1000"], ["0", "1e-40", "1e-8", "0.3"]
    )


def test_the_sharp_tail_is_reached() -> None:
    """Outcomes whose two tails meet both constraints of (epsilon, delta)-DP with equality.

    Both tails have a loss of just 2 epsilon (here exactly), in the one direction and the other.
    """
    with mpmath.workdps(50):
        e, d = mpmath.mpf("0.5"), mpmath.mpf("0.001")
        high = d / (1 - mpmath.exp(-e))  # P of the outcome of loss 2 epsilon
        low = d / (mpmath.exp(2 * e) - mpmath.exp(e))  # P of the one of loss -2 epsilon
        p = [high, low, 1 - high - low]
        q = [high * mpmath.exp(-2 * e), low * mpmath.exp(2 * e)]
        q.append(1 - q[0] - q[1])
        one = mpmath.fsum(max(a - mpmath.exp(e) * b, 0) for a, b in zip(p, q, strict=True))
        other = mpmath.fsum(max(b - mpmath.exp(e) * a, 0) for a, b in zip(p, q, strict=True))
        assert abs(one - d) < mpmath.mpf(10) ** -45
        assert abs(other - d) < mpmath.mpf(10) ** -45
        sharp = outside_twice_sharp(epsilon=Fraction(1, 2), delta=Fraction(1, 1000))
        assert abs(real(sharp) / (high + low) - 1) < mpmath.mpf(10) ** -38


def test_a_probabilistic_delta_of_1_or_more_is_none() -> None:
    assert probabilistic_delta(epsilon=Fraction(0), delta=Fraction(1, 10)) is None
    assert probabilistic_delta(epsilon=Fraction(1, 10**6), delta=Fraction(1, 10)) is None
    assert double_epsilon_tail(epsilon=Fraction(1, 10**6), delta=Fraction(1, 10)) > 1


@given(st.lists(VARIANCES, min_size=1, max_size=8, unique=True), VARIANCES)
def test_refinements_telescope_to_one_gaussian(
    variances: list[Fraction], sensitivity: Fraction
) -> None:
    """P4: from no noise released at all to the last variance shown."""
    total, before = Fraction(0), None
    for variance in sorted(variances, reverse=True):
        rho = refinement_rho(sensitivity=sensitivity, variance=variance, previous=before)
        mu_squared = refinement_mu_squared(
            sensitivity=sensitivity, variance=variance, previous=before
        )
        assert mu_squared == 2 * rho > 0
        total, before = total + rho, variance
    assert total == sensitivity**2 / (2 * min(variances))


def test_a_first_release_is_a_gaussian() -> None:
    release = refinement_rho(sensitivity=Fraction(2), variance=Fraction(9))
    assert release == gaussian_rho(sigma=Fraction(3), sensitivity=Fraction(2))
    again = refinement_rho(sensitivity=Fraction(2), variance=Fraction(9), previous=Fraction(9))
    assert again == 0


@pytest.mark.parametrize(("before", "now"), [(1, 2), (None, 0), (2, -1)])
def test_variances_that_do_not_fall_are_refused(before: int | None, now: int) -> None:
    with pytest.raises(ArithmeticError, match="variances must fall"):
        refinement_rho(
            sensitivity=Fraction(1),
            variance=Fraction(now),
            previous=None if before is None else Fraction(before),
        )


@given(VARIANCES, VARIANCES, st.integers(-40, 40))
def test_laplace_noise_of_the_larger_scale_is_a_mixture(
    one: Fraction, other: Fraction, tenths: int
) -> None:
    """The characteristic functions of both sides, which are fractions at every point."""
    small, large = sorted((one, other))
    stay = stay_probability(smaller=small, larger=large)
    t = Fraction(tenths, 10)

    def laplace(scale: Fraction) -> Fraction:
        return 1 / (1 + scale**2 * t**2)

    assert 0 < stay <= 1
    assert laplace(large) == laplace(small) * (stay + (1 - stay) * laplace(large))


@pytest.mark.parametrize(("small", "large"), [(0, 1), (-1, 1), (2, 1)])
def test_scales_that_do_not_grow_are_refused(small: int, large: int) -> None:
    with pytest.raises(ArithmeticError, match="scales must grow"):
        stay_probability(smaller=Fraction(small), larger=Fraction(large))
