"""The relative-error rule, in exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accountant.mechanisms.relative_error import RelativeError, deviation

positive = st.fractions(min_value=Fraction(1, 1000), max_value=1000, max_denominator=1000)
unit = st.fractions(min_value=-1, max_value=1, max_denominator=1000)
above = st.fractions(min_value=0, max_value=1000, max_denominator=1000)


@given(positive, positive, positive, above, unit)
def test_an_answer_that_passes_is_within_alpha(alpha, c, scale, above, noise):
    rule = RelativeError(alpha, c)
    answer = rule.threshold(scale) + above
    truth = answer - noise * c * scale
    assert abs(answer - truth) <= alpha * truth


@given(positive, positive, positive)
def test_the_threshold_is_the_least_that_does(alpha, c, scale):
    rule = RelativeError(alpha, c)
    answer = rule.threshold(scale)
    assert c * scale == alpha * (answer - c * scale)
    lower = answer * Fraction(999_999, 1_000_000)
    truth = lower - c * scale
    assert abs(lower - truth) > alpha * truth


def test_answers_are_compared_exactly():
    # 66 is the threshold; the floats next to it differ from it.
    rule = RelativeError(Fraction(1, 10), Fraction(2))
    assert rule.passes(66.0, Fraction(3))
    assert not rule.passes(math.nextafter(66.0, 0), Fraction(3))
    assert not rule.passes(-100.0, Fraction(3))


@given(st.fractions(min_value=Fraction(1, 10**6), max_value=10**9, max_denominator=10**9))
def test_the_deviation_is_rounded_up(variance):
    root = deviation(variance)
    assert (root - Fraction(1, 10**20)) ** 2 < variance <= root**2


@pytest.mark.parametrize(
    ("variance", "root"), [("9e6", "3000"), ("2.25", "1.5"), ("1e-40", "1e-20")]
)
def test_the_deviation_of_a_square_variance_is_exact(variance, root):
    assert deviation(Fraction(variance)) == Fraction(root)


@pytest.mark.parametrize("variance", [0, -1])
def test_no_noise_has_no_deviation(variance):
    with pytest.raises(ValueError, match="above 0"):
        deviation(Fraction(variance))


@pytest.mark.parametrize(("alpha", "c"), [(0, 1), (1, 0), (-1, 1)])
def test_a_rule_needs_both_numbers(alpha, c):
    with pytest.raises(ValueError, match="above 0"):
        RelativeError(Fraction(alpha), Fraction(c))
