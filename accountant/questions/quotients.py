"""Quotients of noisy numbers and their intervals: post-processing, total whatever the noise."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Final

Interval = tuple[Fraction, Fraction]

QUOTIENT_PLACES: Final = 6
"""How many more digits after the point a mean has than its column."""


def quotient_interval(total: Interval, count: Interval) -> Interval:
    """Return the least and the largest quotient within two intervals.

    A count below 1 counts as 1.
    """
    # A quotient is monotone in each of the two, so its extremes are at the corners.
    corners = [each / max(n, Fraction(1)) for each, n in product(total, count)]
    return min(corners), max(corners)


def clamp(value: Fraction, within: Interval) -> Fraction:
    """Return the nearest value of an interval."""
    return min(max(value, within[0]), within[1])
