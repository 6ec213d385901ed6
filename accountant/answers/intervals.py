"""Confidence intervals of noisy numbers: post-processing, by the exact law of the noise.

Every function rounds outward: an interval has at least its confidence, whatever the data are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Final

from accountant.questions import Draw
from accountant.questions.error_at_confidence import (
    discrete_gaussian_half_width,
    laplace_half_width,
    refined_half_width,
    rounded_half_width,
)
from accountant.questions.schema import NumberColumn
from accountant.questions.sensitivity import VectorStatistic

CONFIDENCE: Final = "0.95"

_GAUSSIAN: Final[dict[str, Callable[..., Fraction]]] = {
    "discrete_gaussian": discrete_gaussian_half_width,
    "rounded_gaussian": rounded_half_width,
    "gaussian_refinement": refined_half_width,
}

Interval = tuple[Fraction, Fraction]


def half_width(draw: Draw, confidence: Decimal) -> Fraction:
    """Return the error that each noisy number of a draw keeps with a confidence, in its units."""
    assert isinstance(draw.statistic, VectorStatistic), "a choice has no noise on a grid"
    grid = draw.statistic.grid
    if draw.scale is not None:
        return laplace_half_width(scale=draw.scale, confidence=confidence, grid=grid)
    assert draw.variance is not None, "each law has its scale or its variance"
    width = _GAUSSIAN[draw.law]
    return width(variance=draw.variance, confidence=confidence, grid=grid)


def carries_estimate(count: Interval) -> bool:
    """Tell whether a noisy count carries a quotient: its whole interval is of one row or more.

    Of a group without rows, it does so only where the interval misses 0.
    """
    return count[0] >= 1


def mean_interval(column: NumberColumn, *, count: Interval, total: Interval) -> Interval:
    """Return the least and the largest mean of a count and a sum within their intervals.

    A count below 1 counts as 1, as in `mean_value`. If both intervals hold, so does this one.
    """
    low, high = _quotients(total, count)
    return _clamp(low, column.bounds), _clamp(high, column.bounds)


def variance_interval(
    column: NumberColumn, *, count: Interval, total: Interval, squares: Interval
) -> Interval:
    """Return bounds of squares/n - (total/n)^2 for three numbers within their intervals.

    The two terms are bounded apart, so the interval is wider than it need be. If all three
    intervals hold, so does this one.
    """
    lower, upper = column.bounds
    means = _quotients(total, count)
    of_squares = _quotients(squares, count)
    ends = [mean**2 for mean in means]
    least = Fraction(0) if means[0] <= 0 <= means[1] else min(ends)
    possible = Fraction(0), ((upper - lower) / 2) ** 2
    low, high = of_squares[0] - max(ends), of_squares[1] - least
    return _clamp(low, possible), _clamp(high, possible)


def _quotients(total: Interval, count: Interval) -> Interval:
    # A quotient is monotone in each of the two, so its extremes are at the corners.
    corners = [each / max(n, Fraction(1)) for each, n in product(total, count)]
    return min(corners), max(corners)


def _clamp(value: Fraction, within: Interval) -> Fraction:
    return min(max(value, within[0]), within[1])


def outward_decimals(interval: Interval, places: int) -> Interval:
    """Return an interval with at most `places` digits after the point that contains it."""
    unit = 10**places
    low, high = interval
    return Fraction(math.floor(low * unit), unit), Fraction(math.ceil(high * unit), unit)
