"""Each mechanism keeps the error that was asked for, and not by much more noise than needed."""

from __future__ import annotations

from decimal import Decimal

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from accountant.advice.noise_for_error import (
    accuracy_target,
    choices,
    gaussian_sigma,
    laplace_scale,
    response_epsilon,
    response_error,
)
from accountant.claims import Gaussian, Laplace, RandomizedResponse
from accountant.errors import RequestInvalid

ERRORS = st.decimals("1e-6", "1e6", places=6)
CONFIDENCES = st.sampled_from(["0.01", "0.5", "0.9", "0.95", "0.99", "0.999999", "0.999999999999"])


@given(error=ERRORS, confidence=CONFIDENCES.map(Decimal))
def test_laplace_noise_is_the_largest_that_keeps_the_error(error, confidence):
    scale = laplace_scale(error=error, confidence=confidence)
    with mpmath.workdps(50):

        def exceeds(b):
            return mpmath.exp(-mpmath.mpf(str(error)) / mpmath.mpf(str(b)))

        allowed = 1 - mpmath.mpf(str(confidence))
        assert exceeds(scale) <= allowed < exceeds(scale * Decimal("1.00001"))


@given(error=ERRORS, confidence=CONFIDENCES.map(Decimal))
def test_gaussian_noise_is_the_largest_that_keeps_the_error(error, confidence):
    sigma = gaussian_sigma(error=error, confidence=confidence)
    with mpmath.workdps(50):

        def exceeds(s):
            z = mpmath.mpf(str(error)) / mpmath.mpf(str(s)) / mpmath.sqrt(2)
            return mpmath.erfc(z)

        allowed = 1 - mpmath.mpf(str(confidence))
        assert exceeds(sigma) <= allowed < exceeds(sigma * Decimal("1.00002"))


@pytest.mark.parametrize("people", [10, 100, 1000])
@pytest.mark.parametrize("confidence", ["0.8", "0.95", "0.999"])
@pytest.mark.parametrize("error", ["0.05", "0.2", "0.5"])
def test_randomized_response_keeps_the_error_whatever_the_answers_are(people, confidence, error):
    epsilon = response_epsilon(error=Decimal(error), confidence=Decimal(confidence), people=people)
    if epsilon is None:
        at_most = response_error(epsilon=30.0, confidence=Decimal(confidence), people=people)
        assert at_most > float(error)
        return
    for true in {0, 1, people // 3, people // 2, people}:
        assert missed(people, true, float(epsilon), float(error)) <= 1 - float(confidence)


def missed(people: int, true: int, epsilon: float, error: float) -> float:
    """Return P(|estimate - proportion| > error) exactly: the sum of two binomial counts."""
    with mpmath.workdps(30):
        truth = float(1 / (1 + mpmath.exp(-epsilon)))
    kept = binom.pmf(range(true + 1), true, truth)
    flipped = binom.pmf(range(people - true + 1), people - true, 1 - truth)
    outside = 0.0
    for i, first in enumerate(kept):
        for j, second in enumerate(flipped):
            share = (i + j) / people
            estimate = (share - (1 - truth)) / (2 * truth - 1)
            if abs(estimate - true / people) > error * (1 + 1e-9):
                outside += first * second
    return outside


def test_less_error_takes_more_epsilon():
    found = [
        response_epsilon(error=Decimal(error), confidence=Decimal("0.95"), people=1000)
        for error in ("0.3", "0.1", "0.05", "0.01")
    ]
    assert found == sorted(found)


def test_claims_are_of_the_noise_that_was_found():
    wish = accuracy_target(error="50", confidence="0.95", sensitivity="2", people=None)
    laplace, gaussian = choices(wish)
    assert laplace.claim == Laplace(scale="16.6904", sensitivity="2")
    assert gaussian.claim == Gaussian(sigma="25.5106", sensitivity="2")


def test_a_proportion_has_its_noise_on_the_count():
    wish = accuracy_target(error="0.03", confidence="0.95", sensitivity=None, people=10_000)
    laplace, gaussian, response = choices(wish)
    assert laplace.claim == Laplace(scale="100.142", sensitivity="1")
    assert isinstance(response.claim, RandomizedResponse)
    assert gaussian.typical_error == pytest.approx(0.0153064)
    assert laplace.typical_error < response.typical_error * 2


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"error": "0"}, "error"),
        ({"error": "-1"}, "error"),
        ({"error": "nan"}, "error"),
        ({"confidence": "1"}, "confidence"),
        ({"confidence": "0"}, "confidence"),
        ({"sensitivity": "0"}, "sensitivity"),
        ({"sensitivity": None}, "sensitivity"),
        ({"people": 10, "error": "1"}, "error"),
    ],
)
def test_a_wish_that_makes_no_sense_is_refused_by_name(fields, named):
    given_fields = {"error": "1", "confidence": "0.95", "sensitivity": "1", "people": None}
    with pytest.raises(RequestInvalid) as refused:
        accuracy_target(**(given_fields | fields))
    assert refused.value.field == named
