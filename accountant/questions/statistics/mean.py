"""The mean of a column: a noisy sum about the middle of its bounds, by a noisy count."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from accountant.questions.parts import ExactPart, middle_of, row_count, sum_about_middle
from accountant.questions.quotients import QUOTIENT_PLACES, Interval, clamp, quotient_interval
from accountant.questions.schema import NumberColumn
from accountant.questions.scope import Scope
from accountant.questions.statistics.base import EstimateQuestion


class MeanQuestion(EstimateQuestion, frozen=True, tag="mean"):
    """The mean of a column of numbers: a sum about the middle of its bounds, and a count."""

    label = "Mean"

    def parts(self, scope: Scope) -> tuple[ExactPart, ...]:
        """Return the count and the sum about the middle."""
        return row_count(), sum_about_middle(scope.numbers)

    def places(self, scope: Scope) -> int:
        """Return how many digits after the point a mean has."""
        return scope.numbers.places + QUOTIENT_PLACES

    def value(self, scope: Scope, numbers: Sequence[Fraction]) -> Fraction:
        """Return the mean of noisy numbers."""
        count, total = numbers
        return mean_value(scope.numbers, count=count, total=total)

    def interval(self, scope: Scope, within: Sequence[Interval]) -> Interval:
        """Return the interval of a mean."""
        count, total = within
        return mean_interval(scope.numbers, count=count, total=total)


def mean_value(column: NumberColumn, *, count: Fraction, total: Fraction) -> Fraction:
    """Return the mean of released numbers, within the column's bounds.

    A count below 1 is taken as 1, so nothing is divided by zero.

    Args:
        total: about the middle of the bounds.
    """
    return clamp(middle_of(column) + total / max(count, Fraction(1)), column.bounds)


def mean_interval(column: NumberColumn, *, count: Interval, total: Interval) -> Interval:
    """Return the least and the largest mean of a count and a sum within their intervals.

    A count below 1 counts as 1, as in `mean_value`. If both intervals hold, so does this one.
    """
    low, high = (middle_of(column) + each for each in quotient_interval(total, count))
    return clamp(low, column.bounds), clamp(high, column.bounds)
