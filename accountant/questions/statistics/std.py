"""The standard deviation of a column: the root of its noisy variance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from accountant.questions.quotients import QUOTIENT_PLACES, Interval, Noises
from accountant.questions.schema import NumberColumn
from accountant.questions.statistics.variance import VarianceQuestion


class StdQuestion(VarianceQuestion, frozen=True, tag="std"):
    """The standard deviation of a column of numbers, from what its variance is computed from."""

    label = "Standard deviation"

    def places(self, column: NumberColumn) -> int:
        """Return how many digits after the point a standard deviation has."""
        return column.places + QUOTIENT_PLACES

    def value(self, column: NumberColumn, numbers: Sequence[Fraction]) -> Fraction:
        """Return the root of the variance of noisy numbers, rounded half up to its digits."""
        halves = _root(super().value(column, numbers), 2 * 10 ** self.places(column))
        return Fraction((halves + 1) // 2, 10 ** self.places(column))

    def intervals(
        self,
        column: NumberColumn,
        numbers: Sequence[Sequence[Fraction]],
        *,
        confidence: Decimal,
        noises: Noises,
    ) -> Sequence[Interval]:
        """Return the roots of the ends of each variance's interval, rounded outward."""
        unit = 10 ** self.places(column)
        variances = super().intervals(column, numbers, confidence=confidence, noises=noises)
        return [_roots(each, unit) for each in variances]


def _roots(variances: Interval, unit: int) -> Interval:
    least, most = (_root(each, unit) for each in variances)
    most += most**2 < variances[1] * unit**2
    return Fraction(least, unit), Fraction(most, unit)


def _root(value: Fraction, unit: int) -> int:
    """Return a square root in parts of one, rounded down."""
    return math.isqrt(math.floor(value * unit**2))
