"""The standard deviation of a column: the root of its noisy variance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from accountant.questions.quotients import QUOTIENT_PLACES, Interval
from accountant.questions.scope import Scope
from accountant.questions.statistics.variance import VarianceQuestion


class StdQuestion(VarianceQuestion, frozen=True, tag="std"):
    """The standard deviation of a column of numbers, from what its variance is computed from."""

    label = "Standard deviation"

    def places(self, scope: Scope) -> int:
        """Return how many digits after the point a standard deviation has."""
        return scope.numbers.places + QUOTIENT_PLACES

    def value(self, scope: Scope, numbers: Sequence[Fraction]) -> Fraction:
        """Return the root of the variance of noisy numbers, rounded half up to its digits."""
        halves = _root(super().value(scope, numbers), 2 * 10 ** self.places(scope))
        return Fraction((halves + 1) // 2, 10 ** self.places(scope))

    def interval(self, scope: Scope, within: Sequence[Interval]) -> Interval:
        """Return the roots of the ends of the variance's interval, rounded outward."""
        unit = 10 ** self.places(scope)
        low, high = super().interval(scope, within)
        least, most = _root(low, unit), _root(high, unit)
        return Fraction(least, unit), Fraction(most + (most**2 < high * unit**2), unit)


def _root(value: Fraction, unit: int) -> int:
    """Return a square root in parts of one, rounded down."""
    return math.isqrt(math.floor(value * unit**2))
