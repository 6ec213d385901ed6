"""Confidence intervals of noisy numbers: post-processing, by the exact law of the noise.

Every function rounds outward: an interval has at least its confidence, whatever the data are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Final

from accountant.questions import Draw
from accountant.questions.error_at_confidence import (
    discrete_gaussian_half_width,
    laplace_half_width,
    refined_half_width,
    rounded_half_width,
)
from accountant.questions.quotients import Interval
from accountant.questions.sensitivity import VectorStatistic

CONFIDENCE: Final = "0.95"

_GAUSSIAN: Final[dict[str, Callable[..., Fraction]]] = {
    "discrete_gaussian": discrete_gaussian_half_width,
    "rounded_gaussian": rounded_half_width,
    "gaussian_refinement": refined_half_width,
}


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


def outward_decimals(interval: Interval, places: int) -> Interval:
    """Return an interval with at most `places` digits after the point that contains it."""
    unit = 10**places
    low, high = interval
    return Fraction(math.floor(low * unit), unit), Fraction(math.ceil(high * unit), unit)
