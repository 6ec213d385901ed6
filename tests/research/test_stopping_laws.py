"""The laws of the level at which a count stops: against sums over small grids, and samplers."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from accountant.mechanisms.relative_error import RelativeError, deviation
from accountant.noise import GaussianRefinement, LaplaceReduction
from research.accuracy_first import MAIN_METHODS, METHODS, TRIALS, expected, law
from research.experiment import COUNTS, DIGITS, Setting
from research.stopping_laws import (
    Moments,
    brownian_law,
    cost,
    doubling_law,
    gaussian_costs,
    laplace_law,
)
from tests.accountant.mechanisms import expected as by_cells
from tests.nightly import rounds

RULE = RelativeError(Fraction(1, 10), Fraction(2))
SMALL = Setting(RULE, counts=(0, 11, 30, 47, 70), first=Decimal(4), levels=5)
"""NoiseSource of a few steps, where rounding matters."""


def thresholds(setting):
    return [setting.rule.threshold(deviation(Fraction(t))) for t in setting.variances]


def rounded_sums(count, setting):
    """Return the law of the level, by the masses of 2^(k-1) Y_k, which are integers."""
    law, chances = [], {}
    for k, threshold in enumerate(thresholds(setting)):
        before = setting.variances[max(0, k - 1)]  # the added precision is that of the level before
        spread = math.sqrt(Fraction(before))
        shown = np.arange(count - 40, count + 41)
        masses = np.diff(ndtr((np.append(shown, shown[-1] + 1) - 0.5 - count) / spread))
        if k == 0:
            after = dict(zip(shown.tolist(), masses.tolist(), strict=True))
        else:
            after = Counter()
            weight = 2 ** (k - 1)
            for total, chance in chances.items():
                for x, mass in zip(
                    (weight * shown).tolist(), (chance * masses).tolist(), strict=True
                ):
                    after[total + x] += mass
        passing = [total for total in after if Fraction(total, 2**k) >= threshold]
        law.append(sum(after.pop(total) for total in passing))
        chances = after
    return law


def test_rounding_is_within_the_bounds_of_shifted_thresholds():
    costs = gaussian_costs(SMALL, every_round=False)
    exact = np.array([rounded_sums(count, SMALL) for count in SMALL.counts])
    mean = cost(exact, costs)[0]
    low, middle, high = (cost(brownian_law(SMALL, shift=s), costs)[0] for s in (-0.5, 0, 0.5))
    assert (low <= mean + 1e-12).all()
    assert (mean <= high + 1e-12).all()
    assert (low[2:] < high[2:]).all()
    assert mean == pytest.approx(middle, rel=0.01)


def test_doubling_rounds_are_independent_and_their_rounding_exact():
    exact = []
    for count in SMALL.counts:
        alive, row = 1.0, []
        for t, threshold in zip(SMALL.variances, thresholds(SMALL), strict=True):
            least = next(m for m in range(200) if m >= threshold)
            passes = 1 - float(ndtr((least - 0.5 - count) / math.sqrt(Fraction(t))))
            row.append(alive * passes)
            alive *= 1 - passes
        exact.append(row)
    assert doubling_law(SMALL) == pytest.approx(np.array(exact), abs=1e-14)


def test_laplace_noise_reduction_is_the_chain_from_the_finest_scale_up():
    setting = replace(SMALL, rule=replace(RULE, c=Fraction(1)))
    scales = [float(b) for b in setting.scales]
    size = 200
    noise = np.arange(-size, size + 1)
    for count, row in zip(setting.counts, laplace_law(setting), strict=True):
        for stop, found in enumerate(row):
            start = scales[-1]
            chances = math.tanh(0.5 / start) * np.exp(-np.abs(noise) / start)
            for k in range(len(scales) - 1, -1, -1):
                if k < len(scales) - 1:
                    a, b = math.exp(-1 / scales[k + 1]), math.exp(-1 / scales[k])
                    stays = (a / b) * ((1 - b) / (1 - a)) ** 2
                    more = math.tanh(0.5 / scales[k]) * np.exp(-np.abs(noise) / scales[k])
                    spread = np.convolve(chances, more)[size : 3 * size + 1]
                    chances = stays * chances + (1 - stays) * spread
                passes = count + noise >= float(setting.rule.threshold(setting.scales[k]))
                if k == stop:
                    chances = np.where(passes, chances, 0)
                elif k < stop:
                    chances = np.where(passes, 0, chances)
            assert found == pytest.approx(chances.sum(), abs=1e-12)


def test_laws_agree_with_those_of_another_method():
    """Of noise that is not rounded, by the masses of cells; steps of 1 matter little here."""
    setting = replace(TRIALS["paper"].setting, counts=COUNTS[:120:40], levels=by_cells.STEPS)
    need = by_cells.standardised(setting.counts, 22)
    assert np.abs(by_cells.brownian_steps(need) - brownian_law(setting)).max() < 1e-4
    assert np.abs(by_cells.doubling_steps(need) - doubling_law(setting)).max() < 5e-3
    setting = replace(TRIALS["paper"].setting_of(METHODS["Laplace noise reduction, ex_post"]))
    setting = replace(setting, counts=COUNTS[:60:40], levels=by_cells.STEPS)
    need = by_cells.standardised(setting.counts, 11 * math.log(20))
    assert np.abs(by_cells.laplace_steps(need) - laplace_law(setting)).max() < 3e-3


def test_more_nodes_change_nothing():
    setting = replace(TRIALS["paper"].setting, counts=COUNTS[:160:20])
    assert np.abs(brownian_law(setting) - brownian_law(setting, nodes=192)).max() < 1e-12


@pytest.mark.parametrize("trial", ["digits", "every pixel"])
@pytest.mark.parametrize("name", MAIN_METHODS)
def test_laws_are_probabilities(trial, name):
    rows = law(trial, METHODS[name])
    assert (rows > -1e-12).all()
    assert (rows.sum(axis=1) < 1 + 1e-12).all()


RUNS = rounds(2_000, 40_000)


@pytest.mark.parametrize("name", MAIN_METHODS)
def test_sessions_of_exact_noise_stop_as_their_law_says(name):
    """By chi-square, without a ledger, for counts that stop at different levels."""
    method, one = MAIN_METHODS[name], TRIALS["digits"]
    setting, bits = one.setting_of(method), random.Random(36).getrandbits
    levels = setting.variances if "Laplace" not in name else setting.scales
    scales = setting.scales if "Laplace" in name else [deviation(Fraction(t)) for t in levels]
    for place in (5, 36):
        count = DIGITS[place]

        def stop(count: int = count) -> int:
            draw = (
                LaplaceReduction(count, levels, bits).draw
                if "Laplace" in name
                else GaussianRefinement(count, bits).draw
            )
            for k, (level, scale) in enumerate(zip(levels, scales, strict=True)):
                if "doubling" in name:
                    draw = GaussianRefinement(count, bits).draw
                if setting.rule.passes(draw(level), scale):
                    return k
            raise AssertionError("a large count passes")

        found = np.bincount([stop() for _ in range(RUNS)], minlength=len(levels))
        chances = law("digits", method)[place]
        many = chances * RUNS >= 8
        pooled = np.append(found[many], found[~many].sum())
        rest = max(1 - chances[many].sum(), 1e-12)
        if rest * RUNS < 8:
            pooled, rest = pooled[:-1], 0.0
        expected_counts = np.append(chances[many], rest)[: len(pooled)]
        expected_counts *= pooled.sum() / expected_counts.sum()
        assert stats.chisquare(pooled, expected_counts).pvalue > 1e-5


def test_a_cost_counts_what_never_stops_at_the_finest_level():
    mean, variance = cost(np.array([[0.5, 0.25], [0.0, 0.0]]), np.array([1.0, 3.0]))
    assert mean.tolist() == [2.0, 3.0]
    assert variance.tolist() == [1.0, 0.0]


def test_runs_are_as_many_as_four_deviations_of_their_mean_take():
    assert Moments(100.0, 1.0).runs(0.01) == 16
    assert Moments(100.0, 0.1).runs(0.01) == 1


def test_expected_costs_and_counts_of_the_real_data():
    found = {
        (trial, name): expected(trial, method).moments.mean
        for trial in ("digits", "every pixel")
        for name, method in MAIN_METHODS.items()
    }
    assert {key: round(mean, 3) for key, mean in found.items()} == {
        ("digits", "Brownian, zcdp_tight"): 35.785,
        ("digits", "doubling, zcdp_tight"): 31.993,
        ("digits", "Laplace noise reduction, ex_post"): 27.555,
        ("every pixel", "Brownian, zcdp_tight"): 0.243,
        ("every pixel", "doubling, zcdp_tight"): 0.484,
        ("every pixel", "Laplace noise reduction, ex_post"): 5.167,
    }
