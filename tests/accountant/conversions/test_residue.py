"""The exact root of the residue filter, and what docs/theory.md says about it."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant.conversions.gdp import mu_of_pure
from accountant.conversions.residue import has_residue, residue_after_pure
from tests.accountant.conversions import gaussian
from tests.accountant.conversions.gaussian import real
from tests.every_case import check_each
from tests.nightly import examples

MUS = ["1e-30", "1e-9", "0.001", "0.2", "1", "3", "10", "40"]
EPSILONS = ["1e-31", "1e-12", "1e-10", "1e-4", "0.1", "0.159", "0.1595", "1", "10", "100"]


@pytest.mark.slow
def test_the_root_is_rounded_down_or_refused() -> None:
    def check_case(mu: str, epsilon: str) -> None:
        exact = gaussian.residue(real(mu), real(epsilon))
        ours = residue_after_pure(mu=Decimal(mu), epsilon=Decimal(epsilon))
        assert (ours is None) == (exact is None)
        assert has_residue(mu=Decimal(mu), epsilon=Decimal(epsilon)) == (exact is not None)
        if ours is not None and exact is not None:
            with mpmath.workdps(100):
                # In the state's own size: near 0 the root moves by more than its equation.
                assert exact - real(mu) * mpmath.mpf(10) ** -28 <= real(ours) <= exact

    check_each(check_case, MUS, EPSILONS)


def test_a_residue_is_accurate_to_the_requested_digits() -> None:
    """A cost of 1e-24 out of a state of 0.04: its own digits, not those of the state."""
    exact = gaussian.pure_cost(real("0.04"), real("1e-12"))
    ours = residue_after_pure(mu=Decimal("0.2"), epsilon=Decimal("1e-12"), digits=50)
    assert ours is not None
    assert exact is not None
    with mpmath.workdps(100):
        cost = real("0.04") - real(ours) ** 2
        assert exact <= cost <= exact * (1 + mpmath.mpf(10) ** -24)


def test_epsilon_0_leaves_mu_unchanged_and_mu_0_has_no_residue() -> None:
    assert residue_after_pure(mu=Decimal("0.3"), epsilon=Decimal(0)) == Decimal("0.3")
    assert residue_after_pure(mu=Decimal(0), epsilon=Decimal("1e-12")) is None
    assert residue_after_pure(mu=Decimal(0), epsilon=Decimal(0)) == 0
    third = residue_after_pure(mu=Fraction(1, 3), epsilon=Fraction(1, 30))
    assert third is not None
    assert third < Decimal("0.3334")


@pytest.mark.parametrize("epsilon", ["1e-12", "0.001", "0.3", "1.5", "20"])
def test_a_pure_mechanism_has_a_residue_from_its_dominating_gaussian_on(epsilon: str) -> None:
    """Phi(m/2) = e^epsilon/(1 + e^epsilon) is where m = mu(epsilon)."""
    mu = mu_of_pure(Decimal(epsilon))
    assert has_residue(mu=mu, epsilon=Decimal(epsilon))
    assert not has_residue(mu=mu * (1 - Decimal("1e-25")), epsilon=Decimal(epsilon))
    more = mu * (1 + Decimal("1e-9"))
    left = residue_after_pure(mu=more, epsilon=Decimal(epsilon))
    assert left is not None
    assert 0 < left < more / 3


@settings(max_examples=examples(40), deadline=None)
@given(st.floats(-6, 0.8), st.floats(0, 1), st.sampled_from(["1e-9", "1e-4", "0.1", "1", "4"]))
def test_the_cost_falls_as_the_state_grows(log_room: float, log_more: float, epsilon: str) -> None:
    """P10, also beyond m = 2, and its bounds: 8 ln cosh(epsilon/2) < cost <= mu(epsilon)^2."""
    with mpmath.workdps(60):
        e = real(epsilon)
        largest = real(mu_of_pure(Decimal(epsilon))) ** 2
        state = largest * (1 + mpmath.mpf(10) ** log_room)
        more = state * mpmath.mpf(10) ** (log_more + 0.01)
        one, other = gaussian.pure_cost(state, e), gaussian.pure_cost(more, e)
        assert one is not None
        assert other is not None
        # 8 ln cosh(e/2), written so that a tiny epsilon keeps its digits.
        minimum = 8 * mpmath.log1p(2 * mpmath.sinh(e / 4) ** 2)
        assert minimum < other < one <= largest
        assert one * (1 - one / state) < e * e


def test_the_equation_of_p10_is_that_of_p6() -> None:
    """cosh(e/2) I(m', m; e^((s - c)/8)) = m' T(x), by quadrature and the series."""
    for mu, epsilon in (("0.2", "0.1"), ("1", "0.7"), ("4", "2"), ("0.05", "0.039")):
        with mpmath.workdps(50):
            m, e = real(mu), real(epsilon)
            left = gaussian.residue(m, e)
            assert left is not None
            area = mpmath.quad(lambda u, s=left**2: mpmath.exp((s - u * u) / 8), [left, m])
            x, p, total = e * e / (2 * left**2), mpmath.mpf(0), mpmath.mpf(0)
            for k in range(1, 200):
                p = (1 - left**2 / 4 * p) / (2 * k - 1)
                total -= (-x) ** k / mpmath.factorial(k) * p
            assert abs(mpmath.cosh(e / 2) * area / (left * total) - 1) < mpmath.mpf(10) ** -40


def closed_form_slack(kappa: mpmath.mpf, epsilon: mpmath.mpf) -> mpmath.mpf:
    """Return by how much epsilon^2 (1 + 1/(6 kappa) + 0.21/kappa^2) exceeds the cost."""
    with mpmath.workdps(60):
        cost = gaussian.pure_cost(kappa * epsilon**2, epsilon)
        assert cost is not None
        form = 1 + 1 / (6 * kappa) + mpmath.mpf("0.21") / kappa**2
        return (form - cost / epsilon**2) * kappa**2


@pytest.mark.parametrize("epsilon", ["1e-6", "0.01", "0.1", "0.5", "1"])
def test_the_closed_form_bounds_the_residue_from_kappa_3_on(epsilon: str) -> None:
    """It was checked, not proved: neither costs nor budgets come from it."""
    slacks = [
        closed_form_slack(real(kappa), real(epsilon))
        for kappa in ("3", "3.01", "3.2", "4", "6", "10", "100", "10000")
        if real(kappa) * real(epsilon) ** 2 <= 100
    ]
    assert all(slack > 0.004 for slack in slacks)
    if epsilon == "1e-6":
        assert min(slacks) == slacks[0]
        assert abs(slacks[0] - 0.0045) < 0.0005
        assert closed_form_slack(real("2.86"), real(epsilon)) < 0
