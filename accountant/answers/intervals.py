"""Confidence intervals of noisy numbers: post-processing, by the exact law of the noise.

Every function rounds outward: an interval has at least its confidence, whatever the data are.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Final

from accountant.questions import Draw
from accountant.questions.laws import LAWS
from accountant.questions.quotients import Interval
from accountant.questions.sensitivity import VectorStatistic

CONFIDENCE: Final = "0.95"


def half_width(draw: Draw, confidence: Decimal) -> Fraction:
    """Return the error that each noisy number of a draw keeps with a confidence, in its units."""
    assert isinstance(draw.statistic, VectorStatistic), "a choice has no noise on a grid"
    law, grid = LAWS[draw.law], draw.statistic.grid
    return law.half_width(draw.spread, confidence=confidence, grid=grid)


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
