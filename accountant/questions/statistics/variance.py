"""The variance of a column: noisy sums of squares and of values about the middle, and a count."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from accountant.questions.parts import (
    ExactPart,
    middle_square_of,
    row_count,
    squares_about_middle,
    sum_about_middle,
)
from accountant.questions.quotients import QUOTIENT_PLACES, Interval, clamp, quotient_interval
from accountant.questions.schema import NumberColumn
from accountant.questions.scope import Scope
from accountant.questions.statistics.base import EstimateQuestion


class VarianceQuestion(EstimateQuestion, frozen=True, tag="variance"):
    """The variance of a column of numbers: sums of squares and values about the middle, a count."""

    label = "Variance"

    def parts(self, scope: Scope) -> tuple[ExactPart, ...]:
        """Return the count, the sum about the middle and that of squares."""
        column = scope.numbers
        return row_count(), sum_about_middle(column), squares_about_middle(column)

    def places(self, scope: Scope) -> int:
        """Return how many digits after the point a variance has."""
        return 2 * scope.numbers.places + QUOTIENT_PLACES

    def value(self, scope: Scope, numbers: Sequence[Fraction]) -> Fraction:
        """Return the variance of noisy numbers."""
        count, total, squares = numbers
        return variance_value(scope.numbers, count=count, total=total, squares=squares)

    def interval(self, scope: Scope, within: Sequence[Interval]) -> Interval:
        """Return the interval of a variance."""
        count, total, squares = within
        return variance_interval(scope.numbers, count=count, total=total, squares=squares)


def variance_value(
    column: NumberColumn, *, count: Fraction, total: Fraction, squares: Fraction
) -> Fraction:
    """Return the variance of released numbers (divided by n), at least 0.

    No numbers of that range have more than a quarter of its square. A count below 1 is taken as 1.

    Args:
        total, squares: about the middle of the bounds, and of the squares.
    """
    n = max(count, Fraction(1))
    return clamp(middle_square_of(column) + squares / n - (total / n) ** 2, _possible(column))


def variance_interval(
    column: NumberColumn, *, count: Interval, total: Interval, squares: Interval
) -> Interval:
    """Return bounds of q + squares/n - (total/n)^2 for three numbers within their intervals.

    The two terms are bounded apart, so the interval is wider than it need be. If all three
    intervals hold, so does this one.
    """
    means = quotient_interval(total, count)
    middle = middle_square_of(column)
    of_squares = [middle + each for each in quotient_interval(squares, count)]
    ends = [mean**2 for mean in means]
    least = Fraction(0) if means[0] <= 0 <= means[1] else min(ends)
    low, high = of_squares[0] - max(ends), of_squares[1] - least
    return clamp(low, _possible(column)), clamp(high, _possible(column))


def _possible(column: NumberColumn) -> Interval:
    lower, upper = column.bounds
    return Fraction(0), ((upper - lower) / 2) ** 2
