"""The Brownian mechanism: its law, that of Theorem A, and what it pays."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from accountant.claims import Brownian
from accountant.mechanisms.brownian import BrownianSession, bridge
from accountant.policy import Policy, resolve
from accountant.policy.compiled_policy import open_plan
from research.games.ledgers import FilterLedger
from tests.accountant.returned import by_showing

LADDER = ("9", "5", "4.5", "1", "0.25")
falling = st.lists(st.integers(1, 10**6), min_size=1, max_size=6, unique=True).map(
    lambda found: [str(t) for t in sorted(found, reverse=True)]
)


def session(value=0.0, seed=1, sensitivity="1"):
    return BrownianSession(value, sensitivity=sensitivity, generator=np.random.default_rng(seed))


def covariance_of_the_bridge(ladder):
    """Return the exact covariances of Y_1 - f, Y_2 - f, ... as the kernel makes them."""
    rows: list[list[Fraction]] = []
    previous = None
    for variance in ladder:
        slope, spread = bridge(variance, previous)
        with_earlier = [slope * c for c in rows[-1]] if rows else []
        own = spread + (slope**2 * rows[-1][-1] if rows else 0)
        rows.append([*with_earlier, own])
        # Cov(Y_k, Y_j) = slope Cov(Y_{k-1}, Y_j): the row before, symmetric.
        previous = variance
    return rows


@given(falling)
def test_the_bridge_has_the_covariance_of_brownian_motion_exactly(ladder):
    for k, row in enumerate(covariance_of_the_bridge(ladder)):
        assert row == [min(Fraction(ladder[j]), Fraction(ladder[k])) for j in range(k + 1)]


@given(falling)
def test_theorem_a_independent_gaussians_have_that_covariance_exactly(ladder):
    t = [Fraction(text) for text in ladder]
    precisions = [1 / b - (1 / a if a else 0) for a, b in zip([None, *t], t, strict=False)]
    for k, row in enumerate(covariance_of_the_bridge(ladder)):
        # Y_k = t_k sum pi_j X_j with Var X_j = 1/pi_j.
        assert row == [t[k] * t[j] * sum(precisions[: j + 1]) for j in range(k + 1)]


def test_answers_have_that_law():
    runs = 40_000
    shown = session(np.full(runs, 7.0))
    errors = np.array([shown.show(t) for t in LADDER]) - 7.0
    exact = np.minimum.outer(*[np.array(LADDER, dtype=float)] * 2)
    found = errors @ errors.T / runs
    # Var(xy) of normal x, y is s_xx s_yy + s_xy^2.
    spread = np.sqrt((np.outer(np.diag(exact), np.diag(exact)) + exact**2) / runs)
    assert np.all(np.abs(found - exact) < 5 * spread)
    for row, t in zip(errors, LADDER, strict=True):
        assert stats.kstest(row, stats.norm(0, float(t) ** 0.5).cdf).pvalue > 1e-4


def test_theorem_a_where_the_next_variance_depends_on_the_answer():
    """What a refinement adds is a fresh Gaussian of its precision, whatever was shown."""
    innovations = []
    for seed in range(6_000):
        shown = session(2.0, seed)
        first = float(shown.show("4"))
        after = "1" if first > 2.5 else "3"
        second = float(shown.show(after))
        pi = float(1 / Fraction(after) - Fraction(1, 4))
        fresh = (second / float(after) - first / 4) / pi
        innovations.append(((first - 2) / 2, (fresh - 2) * pi**0.5))
    one, two = np.array(innovations).T
    for half in (two, two[one > 0.25], two[one <= 0.25]):
        assert stats.kstest(half, "norm").pvalue > 1e-4
    assert stats.spearmanr(one, two).pvalue > 1e-4


@given(falling, st.sampled_from(["1", "0.5", "3"]))
def test_costs_telescope_exactly(ladder, sensitivity):
    shown = session(sensitivity=sensitivity)
    total = Fraction(0)
    for variance in ladder:
        total += shown.claim(variance).rho()
        shown.show(variance)
    assert total == Fraction(sensitivity) ** 2 / (2 * Fraction(ladder[-1]))


@pytest.mark.parametrize(
    "name", ["zcdp_tight", "unified_brownian", "fully_adaptive", "gdp_residue"]
)
def test_claims_step_by_step_cost_as_much_as_a_settled_reservation(name):
    policy = resolve(Policy(filter=name, epsilon="1", delta="1e-6", odometers=()))
    ledger, shown = FilterLedger(policy), session(50.0)
    spent = ledger.start
    for variance in ("9000", "4500", "700"):
        after = ledger.charge(spent, shown.claim(variance))
        assert after is not None
        spent = after
        shown.show(variance)
    reserved = Brownian("300", "1")
    maximum = ledger.charge(ledger.start, reserved)
    assert maximum is not None
    returned = by_showing(open_plan(policy), reserved, "700")
    kept = [a - b for a, b in zip(maximum, returned, strict=True)]
    # Each step is rounded up on its own, to 20 digits.
    assert [int(a) for a in spent] == pytest.approx([int(a) for a in kept], rel=1e-18)
    assert 0 < int(spent[0]) < int(maximum[0]) / 2


def test_the_same_seed_shows_the_same():
    one, two = session(3.0), session(3.0)
    assert [one.show(t) for t in LADDER] == [two.show(t) for t in LADDER]


@pytest.mark.parametrize("variance", ["9", "10", "0", "-1"])
def test_a_variance_must_fall_and_nothing_is_shown_else(variance):
    shown = session()
    shown.show("9")
    with pytest.raises(ValueError, match="variance must be"):
        shown.show(variance)
    assert shown.variance == "9"
    shown.show("8")
