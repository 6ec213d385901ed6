"""The trials of the experiment: their counts, and what accuracy first saves."""

from __future__ import annotations

import pytest
from sklearn.datasets import load_digits

from research.accuracy_first import (
    MAIN_METHODS,
    TRIALS,
    expected,
    fixed_cost,
    shares,
    shares_if_known,
)
from research.experiment import DIGITS

BROWNIAN, DOUBLING, LAPLACE = MAIN_METHODS.values()


def test_the_counts_are_those_of_the_images_that_scikit_learn_ships():
    images = load_digits().data
    assert images.shape == (1797, 64)
    assert sorted((images >= 8).sum(axis=0).tolist(), reverse=True) == list(DIGITS)


def test_accuracy_first_saves_half_of_what_fixed_noise_costs_on_the_real_data():
    fixed = {method: fixed_cost("every pixel", method) for method in MAIN_METHODS.values()}
    assert fixed == {BROWNIAN: 0.5, DOUBLING: 0.5, LAPLACE: 8.0}
    saved = {
        method: 1 - expected("every pixel", method).moments.mean / fixed[method] for method in fixed
    }
    assert saved[BROWNIAN] == pytest.approx(0.514, abs=5e-4)
    assert saved[DOUBLING] == pytest.approx(0.032, abs=5e-4)
    assert saved[LAPLACE] == pytest.approx(0.354, abs=5e-4)


def test_no_budget_of_the_third_trial_is_used_up():
    one = TRIALS["every pixel"]
    for method in MAIN_METHODS.values():
        assert shares("every pixel", method)[-1] < 0.5
        assert len(shares("every pixel", method)) == len(one.setting.counts)


def test_refined_counts_cost_more_than_counts_that_are_known_and_less_than_doubling():
    known, refined, doubled = (
        shares_if_known("digits", BROWNIAN),
        shares("digits", BROWNIAN),
        shares("digits", DOUBLING),
    )
    assert (known[:40] < refined[:40]).all()
    assert (refined[:40] < doubled[:40]).all()
