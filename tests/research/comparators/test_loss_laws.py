"""Laws of the loss: each against integrals of its own distribution, and known identities."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from accountant.conversions.zcdp import laplace_rho, pure_rho
from research.comparators import (
    GaussianLoss,
    LaplaceLoss,
    LossLaw,
    NameAndShameLoss,
    RandomizedResponseLoss,
    optimal_delta,
)
from tests.every_case import check_each

HALF = Fraction(1, 2)

LAWS: list[LossLaw] = [
    GaussianLoss(sensitivity=1.0, sigma=4.0),
    GaussianLoss(sensitivity=3.0, sigma=1.0),
    RandomizedResponseLoss(epsilon=0.1),
    RandomizedResponseLoss(epsilon=2.0, delta=0.01),
    RandomizedResponseLoss(epsilon=0.0, delta=0.25),
    LaplaceLoss(epsilon=0.1),
    LaplaceLoss(epsilon=3.0),
    NameAndShameLoss(delta=0.125),
]


class TestEveryLaw:
    def test_the_hockey_stick_is_the_tail_of_its_cdf(self) -> None:
        def check_case(law: LossLaw) -> None:
            # H_x = E (1 - e^(x - L))_+ = integral over l > x of e^(x - l) P(L > l), by parts.
            for x in (-2.5, -0.05, 0.0, 0.03, 0.09, 1.0, 2.9):
                tail = quad(
                    lambda u, x=x: math.exp(-u) * (1 - law.cdf(x + u)),
                    0,
                    60,
                    limit=500,
                    points=[b - x for b in (-3, -2, -0.1, 0, 0.1, 2, 3) if 0 < b - x < 60] or None,
                )[0]
                assert law.hockey_stick(x) == pytest.approx(tail, abs=2e-8)

        check_each(check_case, LAWS)

    def test_neighbours_are_the_same_from_either_side(self) -> None:
        def check_case(law: LossLaw) -> None:
            # H_x(P||Q) = 1 - e^x + e^x H_{-x}(Q||P), and here (Q, P) has the law of (P, Q).
            for x in (0.01, 0.1, 0.7, 2.0):
                due = 1 - math.exp(x) + math.exp(x) * law.hockey_stick(-x)
                assert law.hockey_stick(x) == pytest.approx(due, abs=1e-12)

        check_each(check_case, LAWS)

    def test_the_cdf_rises_to_the_mass_of_finite_losses(self) -> None:
        def check_case(law: LossLaw) -> None:
            grid = np.linspace(-30, 60, 901)
            values = [law.cdf(float(x)) for x in grid]
            assert values == sorted(values)
            pmf = getattr(law, "pmf", dict)()
            assert values[-1] == pytest.approx(1 - pmf.get(math.inf, 0.0), abs=1e-15)
            assert values[0] == pytest.approx(0, abs=1e-15)

        check_each(check_case, LAWS)


def test_means_are_the_least_rho() -> None:
    assert RandomizedResponseLoss(epsilon=0.5).mean() == pytest.approx(float(pure_rho(HALF)))
    assert LaplaceLoss(epsilon=0.5).mean() == pytest.approx(float(laplace_rho(HALF)))
    assert GaussianLoss(sensitivity=1, sigma=4).mean() == pytest.approx(1 / 32)
    assert NameAndShameLoss(delta=0.1).mean() == math.inf
    assert NameAndShameLoss(delta=0).mean() == 0


def test_randomized_response_is_one_step_of_the_optimum() -> None:
    law = RandomizedResponseLoss(epsilon=0.5)
    for target in ("0", "0.1", "0.499"):
        due = optimal_delta(mechanisms=1, epsilon=Decimal("0.5"), target=Decimal(target))
        assert law.hockey_stick(float(target)) == pytest.approx(float(due), rel=1e-12)


@given(st.floats(0.01, 5), st.floats(0, 0.9))
def test_the_mass_of_randomized_response_is_1(epsilon: float, delta: float) -> None:
    pmf = RandomizedResponseLoss(epsilon=epsilon, delta=delta).pmf()
    assert math.fsum(pmf.values()) == pytest.approx(1)
    assert pmf[epsilon] / pmf[-epsilon] == pytest.approx(math.exp(epsilon))


def test_a_gaussian_keeps_its_digits_and_never_overflows() -> None:
    law = GaussianLoss(sensitivity=0.05, sigma=1)
    assert law.hockey_stick(0.1) == pytest.approx(0.0004461918648847143, rel=1e-10)
    assert 0 < law.hockey_stick(0.5) < 1e-20
    # e^800 is no float; the delta is below the least one.
    assert GaussianLoss(sensitivity=1, sigma=1).hockey_stick(800.0) == 0.0
