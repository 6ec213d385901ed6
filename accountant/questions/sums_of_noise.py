"""The error of a sum of independent noises with public coefficients, by their laws.

Each function returns an error that the sum keeps with a confidence, rounded up.
Source: docs/theory.md P17. Noise on a grid, spread over its steps, is no further from 0 than the
continuous noise of its law, and sums keep that order. Spreading moves a number by half a step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final

from accountant.amounts import CONTEXT
from accountant.conversions.outward import working
from accountant.questions.error_at_confidence import normal_quantile, sqrt_above

_RATIOS: Final = 1024
"""Scales are taken as multiples of this part of the largest one, rounded up."""
_WIDTHS: Final = 1024
_DIGITS: Final = 50
_UNCERTAIN: Final = Decimal("1e-30")  # above all that 50 digits leave out of a tail


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseTerm:
    """A noise with its coefficient in a sum.

    Attributes:
        coefficient: a constant, whatever the noise is.
        spread: its scale or its variance, whichever its law has.
        grid: on whose multiples it is.
    """

    coefficient: Fraction
    spread: Fraction
    grid: Fraction


def normal_sum_half_width(terms: Sequence[NoiseTerm], *, confidence: Decimal) -> Fraction:
    """Return the error of rounded or discrete Gaussian noises."""
    variance = sum((each.coefficient**2 * each.spread for each in terms), Fraction(0))
    return Fraction(normal_quantile(confidence)) * sqrt_above(variance) + _half_steps(terms)


def laplace_sum_half_width(terms: Sequence[NoiseTerm], *, confidence: Decimal) -> Fraction:
    """Return the error of discrete Laplace noises."""
    scales = [abs(each.coefficient) * each.spread for each in terms if each.coefficient]
    if not scales:
        return Fraction(0)
    unit = max(scales) / _RATIOS
    ratios = list[int]()
    for each in sorted(scales):
        # A larger scale is a larger error, and distinct ones have a closed form.
        least = ratios[-1] + 1 if ratios else 1
        ratios.append(max(least, math.ceil(each / unit)))
    return _laplace_width(tuple(ratios), confidence) * unit + _half_steps(terms)


def _half_steps(terms: Sequence[NoiseTerm]) -> Fraction:
    return sum((abs(each.coefficient) * each.grid / 2 for each in terms), Fraction(0))


@lru_cache(maxsize=65536)
def _laplace_width(scales: tuple[int, ...], confidence: Decimal) -> Fraction:
    """Return the error of a sum of continuous Laplace noises of distinct scales."""
    allowed = CONTEXT.subtract(Decimal(1), confidence)
    unit = Fraction(scales[-1], _WIDTHS)
    low, high = -1, _WIDTHS
    while not _keeps(scales, high * unit, allowed):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _keeps(scales, middle * unit, allowed) else (middle, high)
    return high * unit


def _keeps(scales: tuple[int, ...], error: Fraction, allowed: Decimal) -> bool:
    """Tell whether P(|sum| > error) is certainly at most `allowed`."""
    # By partial fractions of the product of the 1/(1 + b^2 u^2), the characteristic functions:
    # P(|sum| > s) = sum_i e^(-s/b_i) prod_(j != i) b_i^2/(b_i^2 - b_j^2).
    with working(_DIGITS):
        s = Decimal(error.numerator) / Decimal(error.denominator)
        tail = Decimal(0)
        for one in scales:
            part = (-s / one).exp()
            for other in scales:
                if other != one:
                    part = part * (one * one) / (one * one - other * other)
            tail += part
        return tail + _UNCERTAIN <= allowed
