"""The variance of a column: noisy sums of squares and of values about the middle, and a count."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final

from accountant.amounts import CONTEXT
from accountant.questions.error_at_confidence import confidence_of_each
from accountant.questions.parts import (
    ExactPart,
    middle_of,
    middle_square_of,
    row_count,
    squares_about_middle,
    sum_about_middle,
)
from accountant.questions.quotients import (
    QUOTIENT_PLACES,
    Interval,
    Noises,
    QuotientSet,
    clamp,
)
from accountant.questions.schema import NumberColumn
from accountant.questions.scope import Scope
from accountant.questions.statistics.base import EstimateQuestion
from accountant.questions.statistics.mean import means_about_middle

_PARTS: Final = 10
"""Of this many parts of the probability to miss, means and squares have one each."""
_ROUNDS: Final = 3
_STEPS: Final = 64


class VarianceQuestion(EstimateQuestion, frozen=True, tag="variance"):
    """The variance of a column of numbers: sums of squares and values about the middle, a count."""

    label = "Variance"

    def parts(self, scope: Scope) -> tuple[ExactPart, ...]:
        """Return the count, the sum about the middle and that of squares."""
        column = scope.numbers
        return row_count(), sum_about_middle(column), squares_about_middle(column)

    def places(self, column: NumberColumn) -> int:
        """Return how many digits after the point a variance has."""
        return 2 * column.places + QUOTIENT_PLACES

    def value(self, column: NumberColumn, numbers: Sequence[Fraction]) -> Fraction:
        """Return the variance of noisy numbers."""
        count, total, squares = numbers
        return variance_value(column, count=count, total=total, squares=squares)

    def intervals(
        self,
        column: NumberColumn,
        numbers: Sequence[Sequence[Fraction]],
        *,
        confidence: Decimal,
        noises: Noises,
    ) -> Sequence[Interval]:
        """Return the interval of each variance."""
        found = _variances(column, confidence, noises)
        return [found.hull(*each) for each in numbers]


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


class VarianceSet:
    """Which variances three noisy numbers leave, with a confidence fixed before they are drawn.

    Source: docs/theory.md P17. For the true mean m about the middle, mean of squares w and variance
    v = q + w - m^2, three sums are noise alone: `total - m count`, `squares - w count`, and
    `squares - 2 m total + z count` with z = m^2 + q - v. The first two bound m and w. The third
    says what v is but for the square of the error of m. The probabilities to miss add up.
    """

    def __init__(self, column: NumberColumn, confidence: Decimal, noises: Noises) -> None:
        """Divide the probability to miss, and find the sets of m and w.

        Args:
            noises: the count's, the sum's, and that of squares.
        """
        q, bounds = middle_square_of(column), column.bounds
        size = max(abs(each - middle_of(column)) for each in bounds)
        of_part = confidence_of_each(confidence, _PARTS)
        missed = CONTEXT.subtract(Decimal(1), of_part)
        self._confidence = CONTEXT.add(confidence, CONTEXT.add(missed, missed))
        self._noises, self._middle_square = noises, q
        self._possible = _possible(column)
        self._means = means_about_middle(column, of_part, noises)
        zero, one = Fraction(0), Fraction(1)
        self._squares = QuotientSet(
            (-q, size**2 - q), lambda w: noises.half_width((w, zero, one), of_part)
        )
        self._steps = size**2 / _STEPS, size / _STEPS
        self._widths = dict[tuple[int, int], Fraction]()

    def hull(self, count: Fraction, total: Fraction, squares: Fraction) -> Interval:
        """Return an interval that contains the set, and the variance of the three.

        All that is possible where the count is not above 0.
        """
        low, high = self._possible
        if count <= 0:
            return low, high
        means, of_squares = self._means.hull(total, count), self._squares.hull(squares, count)
        least, most = clamp(Fraction(0), means) ** 2, max(each**2 for each in means)
        low = max(low, self._middle_square + of_squares[0] - most)
        high = min(high, self._middle_square + of_squares[1] - least)
        mean = total / count
        value = self._middle_square + squares / count - mean**2
        # No mean of the set is further from the estimate, so the square of its error is less.
        error = max(abs(mean - each) for each in means) ** 2
        for _ in range(_ROUNDS):
            z = self._middle_square + least - high, self._middle_square + most - low
            width = self._width_within(max(map(abs, z)), max(map(abs, means))) / count
            low, high = max(low, value - width), min(high, value + width + error)
        ends = clamp(low, self._possible), clamp(high, self._possible)
        nearest = clamp(value, self._possible)
        return min(ends[0], nearest), max(ends[1], nearest)

    def _width_within(self, z: Fraction, mean: Fraction) -> Fraction:
        """Return the error of the third sum's noise for each z and mean up to these."""
        # Rounded up, so that the groups have few different ones.
        of_z, of_mean = self._steps
        steps = math.ceil(z / of_z), math.ceil(mean / of_mean)
        if steps not in self._widths:
            coefficients = steps[0] * of_z, -2 * steps[1] * of_mean, Fraction(1)
            self._widths[steps] = self._noises.half_width(coefficients, self._confidence)
        return self._widths[steps]


@lru_cache(maxsize=64)
def _variances(column: NumberColumn, confidence: Decimal, noises: Noises) -> VarianceSet:
    return VarianceSet(column, confidence, noises)


def _possible(column: NumberColumn) -> Interval:
    lower, upper = column.bounds
    return Fraction(0), ((upper - lower) / 2) ** 2
