"""Confidence intervals of noisy numbers: post-processing, by the exact law of the noise.

Every function rounds outward: an interval has at least its confidence, whatever the data are.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from accountant.questions import Draw
from accountant.questions.error_at_confidence import choice_error
from accountant.questions.quotients import Interval
from accountant.questions.sensitivity import SelectionStatistic


def rank_error(draw: Draw, confidence: Decimal) -> Fraction:
    """Return how many rows each choice of a draw is at most from the best, with a confidence.

    It follows from schema, question and noise: scores would tell of the data.
    """
    statistic = draw.statistic
    assert isinstance(statistic, SelectionStatistic), "numbers have intervals"
    return choice_error(
        scale=draw.spread,
        candidates=statistic.candidates,
        confidence=confidence,
        grid=statistic.grid,
    )


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
