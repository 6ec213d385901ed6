"""Errors of sums of noises, against sums over the exact laws of all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import norm

from accountant.questions.sums_of_noise import (
    NoiseTerm,
    laplace_sum_half_width,
    normal_sum_half_width,
)
from tests.accountant.noise import laws

WIDTHS = {
    "laplace": laplace_sum_half_width,
    "discrete_gaussian": normal_sum_half_width,
    "rounded": normal_sum_half_width,
}
SPREADS = [Fraction(1, 3), Fraction(2), Fraction(5)]
COEFFICIENTS = [
    (Fraction(1), Fraction(1)),
    (Fraction(1), Fraction(-1, 3)),
    (Fraction(1), Fraction(7, 3)),
    (Fraction(0), Fraction(1)),
    (Fraction(1), Fraction(1, 4), Fraction(-2)),
]
CONFIDENCES = [Decimal("0.5"), Decimal("0.95"), Decimal("0.9999")]


def law_of(name: str, spread: Fraction) -> Callable[[int], float]:
    if name == "laplace":
        return lambda k: laws.laplace(float(spread), k)
    if name == "discrete_gaussian":
        return lambda k: laws.discrete_gaussian(float(spread), k)
    return lambda k: laws.rounded(0, float(spread), k)


def tail(name: str, terms: Sequence[NoiseTerm], error: Fraction) -> float:
    """Return P(|sum| > error), by a sum over the laws of all noises."""
    most = 14 if name == "laplace" else 6
    values, chances = np.zeros(1), np.ones(1)
    for term in terms:
        in_steps = term.spread / term.grid ** (1 if name == "laplace" else 2)
        law = law_of(name, in_steps)
        reach = math.ceil(most * math.sqrt(in_steps) if name != "laplace" else most * in_steps)
        steps = range(-reach, reach + 1)
        values = np.add.outer(values, [float(term.coefficient * term.grid) * k for k in steps])
        chances = np.multiply.outer(chances, [law(k) for k in steps])
    return float(chances[np.abs(values) > float(error) + 1e-9].sum())


@pytest.mark.parametrize("name", WIDTHS)
def test_a_sum_of_noises_keeps_its_error(name: str) -> None:
    for coefficients, confidence in product(COEFFICIENTS, CONFIDENCES):
        for first in SPREADS[: 1 if len(coefficients) == 3 else None]:
            terms = [
                NoiseTerm(coefficient=a, spread=first * (1 + i), grid=Fraction(1, 1 + i))
                for i, a in enumerate(coefficients)
            ]
            error = WIDTHS[name](terms, confidence=confidence)
            found = tail(name, terms, error)
            assert found <= float(1 - confidence) + 1e-5, (terms, confidence)
            # Spreading over the steps is all that it is too wide by.
            steps = sum(abs(each.coefficient) * each.grid for each in terms)
            less = error - 2 * steps - error / 100
            assert less <= 0 or tail(name, terms, less) > float(1 - confidence)


def laplace_tail(scales: Sequence[float], error: float) -> float:
    """Return P(|sum| > error) of two continuous Laplace noises, in the printed closed forms."""
    a, b = scales
    if a == b:
        return math.exp(-error / a) * (1 + error / (2 * a))
    return (a**2 * math.exp(-error / a) - b**2 * math.exp(-error / b)) / (a**2 - b**2)


def test_the_closed_form_of_two_laplace_noises_is_met_within_half_a_percent() -> None:
    for ratio, confidence in product(["1", "0.999", "0.5", "0.01"], CONFIDENCES):
        scales = Fraction(700), Fraction(700) * Fraction(ratio)
        terms = [NoiseTerm(coefficient=Fraction(1), spread=b, grid=Fraction(0)) for b in scales]
        error = float(laplace_sum_half_width(terms, confidence=confidence))
        missed = float(1 - confidence)
        assert laplace_tail([float(b) for b in scales], error) <= missed
        assert laplace_tail([float(b) for b in scales], error * 0.995) > missed


def test_normal_noises_add_up_by_their_variances() -> None:
    terms = [
        NoiseTerm(coefficient=Fraction(a), spread=Fraction(v), grid=Fraction(0))
        for a, v in ((3, 4), (-1, 28))
    ]
    error = float(normal_sum_half_width(terms, confidence=Decimal("0.95")))
    assert math.isclose(error, 8 * norm.isf(0.025), rel_tol=1e-5)


def test_no_noise_is_no_error() -> None:
    terms = [NoiseTerm(coefficient=Fraction(0), spread=Fraction(3), grid=Fraction(1))]
    for width in WIDTHS.values():
        assert width(terms, confidence=Decimal("0.95")) <= Fraction(1, 10**30)
