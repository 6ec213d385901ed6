"""The experiment on counts: run through the real filters, and computed from its laws."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from accountant.amounts import UNIT
from accountant.mechanisms.relative_error import RelativeError
from accountant.policy import Policy, resolve
from research import stopping_laws
from research.experiment import (
    COUNTS,
    Setting,
    with_brownian,
    with_doubling,
    with_laplace_reduction,
)
from research.games.ledgers import FilterLedger
from tests.accountant.mechanisms import expected
from tests.nightly import NIGHTLY, rounds

GAUSSIAN = Setting(RelativeError(Fraction(1, 10), Fraction(2)))
# ln 20 to 20 digits: Laplace noise is beyond so many scales with probability 1/20.
LAPLACE = Setting(RelativeError(Fraction(1, 10), Fraction("2.9957322735539909934")))

# Mechanism, filter, the reference's mean; a mean of 30 runs has a standard error of up to 0.19.
FIGURES = [
    (with_brownian, "gdp_residue", 125.9),
    (with_brownian, "zcdp_tight", 118.0),
    (with_brownian, "unified_brownian", 118.0),
    (with_brownian, "fully_adaptive", 102.8),
    (with_doubling, "zcdp_tight", 90.4),
    (with_doubling, "fully_adaptive", 78.7),
    (with_laplace_reduction, "ex_post", 59.9),
]
REFERENCE_ERROR = 0.2
# Of `with_laplace_reduction`, as `expected_of` computes it.
LAPLACE_LAW = stopping_laws.Moments(59.81218441110173, 0.5616027954671208)
IDS = [f"{run.__name__}-{name}" for run, name, _ in FIGURES]
# Filters to whose total variance t adds 1/(2 t); to that of the others it adds 1/t.
HALVES = {"zcdp_tight", "unified_brownian"}


def policy_of(name):
    return resolve(Policy(filter=name, epsilon="1", delta="1e-6", odometers=()))


def setting_of(run):
    return LAPLACE if run is with_laplace_reduction else GAUSSIAN


def runs_of(run, name, runs, seed):
    rng, policy = np.random.default_rng(seed), policy_of(name)
    return [run(setting_of(run), policy, rng) for _ in range(runs)]


@cache
def steps_of(run):
    if run is with_laplace_reduction:
        return expected.laplace_steps(expected.standardised(COUNTS[:80], 11 * math.log(20)))
    need = expected.standardised(COUNTS[:160], 22)
    if run is with_brownian:
        return expected.brownian_steps(need)
    return expected.doubling_steps(need)


@cache
def expected_of(run, name):
    capacity = Fraction(int(FilterLedger(policy_of(name)).capacity[0]), UNIT)
    if run is with_laplace_reduction:
        return stopping_laws.answered_laplace(steps_of(run), float(capacity * 3000))
    units = int(capacity * 3000**2 * (2 if name in HALVES else 1))
    last_only = run is with_brownian
    costs = [2**k if last_only else 2 ** (k + 1) - 1 for k in range(expected.STEPS)]
    return stopping_laws.answered_gaussian(steps_of(run), costs, units)


def test_the_counts_are_exact():
    assert COUNTS[:3] == (30000, 17838, 13160)
    assert all(c**4 * j**3 <= 30000**4 < (c + 1) ** 4 * j**3 for j, c in enumerate(COUNTS, 1))


def test_the_ladders_have_the_requested_precisions():
    assert GAUSSIAN.variances[:4] == ("9000000", "4500000", "2250000", "1125000")
    exact = [Fraction(9_000_000, 2**k) for k in range(36)]
    assert [Fraction(t) for t in GAUSSIAN.variances] == exact
    for scale, t in zip(GAUSSIAN.scales, exact, strict=True):
        assert (scale - Fraction(1, 10**30)) ** 2 < t <= scale**2
    third = Setting(GAUSSIAN.rule, ratio=3)
    assert all(
        0 <= Fraction(t) - Fraction(9_000_000, 3**k) < Fraction(1, 10**32)
        for k, t in enumerate(third.variances)
    )
    with pytest.raises(ValueError, match="ratio"):
        Setting(GAUSSIAN.rule, ratio=1)


@pytest.mark.parametrize(("run", "name", "mean"), FIGURES, ids=IDS)
def test_a_run_answers_well_within_its_budget(run, name, mean):
    capacity = FilterLedger(policy_of(name)).capacity
    for done in runs_of(run, name, 3, seed=7):
        assert all(spent <= maximum for spent, maximum in zip(done.spent, capacity, strict=True))
        # The next answer would be about a hundredth of the budget: little is left unused.
        assert int(done.spent[0]) > 0.9 * int(capacity[0])
        assert abs(len(done.answers) - mean) < 6


@pytest.mark.parametrize("run", [with_brownian, with_doubling])
def test_a_smaller_budget_answers_fewer(run):
    small = resolve(Policy(filter="zcdp_tight", epsilon="0.25", delta="1e-6", odometers=()))
    rng = np.random.default_rng(9)
    maximum = max(len(run(GAUSSIAN, small, rng).answers) for _ in range(3))
    minimum = min(len(done.answers) for done in runs_of(run, "zcdp_tight", 3, seed=9))
    assert maximum < minimum / 2


def test_no_answer_where_not_even_the_first_fits():
    tiny = resolve(Policy(filter="ex_post", epsilon="0.0003", delta="1e-6", odometers=()))
    done = with_laplace_reduction(LAPLACE, tiny, np.random.default_rng(1))
    assert done.answers == ()
    assert done.spent == (0, 0)


@pytest.mark.parametrize(
    ("run", "name", "spent"),
    [
        # 2^(k/2)/3000, and 2^k/(2 3000^2) once or for every round: at the last that fits.
        (with_laplace_reduction, "ex_post", 2**11.5 / 3000),
        (with_brownian, "zcdp_tight", 2**18 / 18e6),
        (with_doubling, "zcdp_tight", (2**18 - 1) / 18e6),
    ],
)
def test_a_count_that_never_passes_pays_for_its_answers_and_ends_the_run(run, name, spent):
    """A count of 0 is shown with ever less noise; then 30000, which would fit, is not asked."""
    setting = Setting(setting_of(run).rule, counts=(0, 30000))
    done = run(setting, policy_of(name), np.random.default_rng(2))
    assert done.answers == ()
    assert int(done.spent[0]) / UNIT == pytest.approx(spent, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("run", [with_brownian, with_doubling, with_laplace_reduction])
def test_answers_have_the_requested_relative_error(run):
    """All but about one in twenty: those whose noise is beyond c scales when they stop."""
    name = "ex_post" if run is with_laplace_reduction else "zcdp_tight"
    close = total = 0
    for done in runs_of(run, name, rounds(12, 40), seed=21):
        for answer, count in zip(done.answers, COUNTS, strict=False):
            total += 1
            close += abs(answer - count) <= count / 10
    assert close / total > 0.93


@pytest.mark.slow
@pytest.mark.parametrize(("run", "name", "mean"), FIGURES, ids=IDS)
def test_the_figures_are_reproduced(run, name, mean):
    """Runs through the real filter agree with the laws, and both with the reference."""
    law = expected_of(run, name) if NIGHTLY or run is not with_laplace_reduction else LAPLACE_LAW
    assert abs(law.mean - mean) < REFERENCE_ERROR
    runs = rounds(25, 300)
    answered = [len(done.answers) for done in runs_of(run, name, runs, seed=2023)]
    # 0.01 more for the grids of `expected`.
    assert abs(np.mean(answered) - law.mean) < 4 * law.deviation / runs**0.5 + 0.01
    assert np.std(answered) == pytest.approx(law.deviation, rel=4 / (2 * runs) ** 0.5)


@pytest.mark.slow
@pytest.mark.skipif(not NIGHTLY, reason="the law takes eight seconds")
def test_the_law_of_laplace_reduction_is_the_stored_one():
    law = expected_of(with_laplace_reduction, "ex_post")
    assert (law.mean, law.deviation) == pytest.approx((LAPLACE_LAW.mean, LAPLACE_LAW.deviation))


@pytest.mark.slow
def test_the_expected_means_do_not_depend_on_their_grids():
    need = expected.standardised(COUNTS[:150], 22)
    coarse, fine = (expected.brownian_steps(need, cells=cells) for cells in (450, 900))
    assert np.abs(coarse - fine).max() < 1e-3
    need = expected.standardised(COUNTS[:20], 11 * math.log(20))
    coarse, fine = (expected.laplace_steps(need, points=points) for points in (6_001, 12_001))
    assert np.abs(coarse - fine).max() < 5e-3
    assert np.abs(fine.sum(axis=1) - 1).max() < 1e-3
