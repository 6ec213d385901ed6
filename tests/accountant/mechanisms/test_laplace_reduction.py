"""Laplace noise reduction: the law of each scale, of all together, and what it pays."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from accountant.amounts import UNIT, units_up
from accountant.claims import check_claim
from accountant.mechanisms.laplace_reduction import LaplaceSession, claim, noise_path
from tests.research.games.exact_interval import interval

SCALES = tuple(map(Fraction, ("10", "7", "3", "0.5")))
RUNS = 40_000


@pytest.fixture(scope="module")
def path():
    return noise_path(SCALES, shape=(RUNS,), generator=np.random.default_rng(11))


def test_the_noise_of_each_scale_is_laplace(path):
    for noise, scale in zip(path, SCALES, strict=True):
        assert stats.kstest(noise, "laplace", args=(0, float(scale))).pvalue > 1e-4


def test_consecutive_scales_share_their_noise_with_the_right_probability(path):
    for i in range(len(SCALES) - 1):
        low, high = interval(int((path[i] == path[i + 1]).sum()), RUNS)
        assert low <= (SCALES[i + 1] / SCALES[i]) ** 2 <= high


def test_earlier_answers_are_the_last_answer_plus_independent_noise(path):
    """So the last answer's loss is that of all: the noise on it tells nothing of the data."""
    for i in range(len(SCALES) - 1):
        more, last = path[i] - path[i + 1], path[i + 1]
        moved = more != 0
        law = ("laplace", (0, float(SCALES[i])))
        for part in (moved, moved & (last > 0), moved & (last < -float(SCALES[i + 1]))):
            assert stats.kstest(more[part], law[0], args=law[1]).pvalue > 1e-4
        assert stats.mannwhitneyu(last[moved], last[~moved]).pvalue > 1e-4


def test_a_session_shows_answers_from_most_to_least_noise():
    noise = noise_path(SCALES, shape=(3,), generator=np.random.default_rng(5))
    session = LaplaceSession(
        np.array([1.0, 2.0, 3.0]),
        sensitivity="2",
        scales=SCALES,
        generator=np.random.default_rng(5),
    )
    assert session.paid == 0
    for expected, scale in zip(noise, SCALES, strict=True):
        assert np.array_equal(session.show(), np.array([1.0, 2.0, 3.0]) + expected)
        assert session.paid == 2 / scale
    with pytest.raises(ValueError, match="has been shown"):
        session.show()


@pytest.mark.parametrize("scale", SCALES)
def test_the_claim_exceeds_the_payment_by_less_than_one_unit(scale):
    bound = claim(sensitivity="2", scale=scale)
    check_claim(bound)
    assert 0 <= Fraction(bound.epsilon) - 2 / scale < Fraction(1, UNIT)
    assert units_up(2 / scale) == Fraction(bound.epsilon) * UNIT


@pytest.mark.parametrize("scales", [(), ("1", "2"), ("2", "2"), ("1", "0"), ("1", "-1")])
def test_scales_must_decrease_above_0(scales):
    with pytest.raises(ValueError, match="must decrease"):
        noise_path(tuple(map(Fraction, scales)), shape=(), generator=np.random.default_rng(1))
