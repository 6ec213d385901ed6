"""Confidence intervals of noisy numbers: post-processing, by the exact law of the noise.

Every function rounds outward: an interval has at least its confidence, whatever the data are.
"""

from __future__ import annotations

import math
from fractions import Fraction

from accountant.questions.quotients import Interval


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
