"""The mean of a column: a noisy sum about the middle of its bounds, by a noisy count."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from accountant.questions.parts import ExactPart, middle_of, row_count, sum_about_middle
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


class MeanQuestion(EstimateQuestion, frozen=True, tag="mean"):
    """The mean of a column of numbers: a sum about the middle of its bounds, and a count."""

    label = "Mean"

    def parts(self, scope: Scope) -> tuple[ExactPart, ...]:
        """Return the count and the sum about the middle."""
        return row_count(), sum_about_middle(scope.numbers)

    def places(self, column: NumberColumn) -> int:
        """Return how many digits after the point a mean has."""
        return column.places + QUOTIENT_PLACES

    def value(self, column: NumberColumn, numbers: Sequence[Fraction]) -> Fraction:
        """Return the mean of noisy numbers."""
        count, total = numbers
        return mean_value(column, count=count, total=total)

    def intervals(
        self,
        column: NumberColumn,
        numbers: Sequence[Sequence[Fraction]],
        *,
        confidence: Decimal,
        noises: Noises,
    ) -> Sequence[Interval]:
        """Return the interval of each mean."""
        middle, found = middle_of(column), means_about_middle(column, confidence, noises)
        hulls = [found.hull(total, count) for count, total in numbers]
        return [(middle + low, middle + high) for low, high in hulls]


def mean_value(column: NumberColumn, *, count: Fraction, total: Fraction) -> Fraction:
    """Return the mean of released numbers, within the column's bounds.

    A count below 1 is taken as 1, so nothing is divided by zero.

    Args:
        total: about the middle of the bounds.
    """
    return clamp(middle_of(column) + total / max(count, Fraction(1)), column.bounds)


@lru_cache(maxsize=64)
def means_about_middle(column: NumberColumn, confidence: Decimal, noises: Noises) -> QuotientSet:
    """Return which means, about the middle of the bounds, a noisy count and sum leave.

    Args:
        noises: the count's, the sum's, and perhaps others.
    """
    middle, (lower, upper), one = middle_of(column), column.bounds, Fraction(1)
    return QuotientSet(
        (lower - middle, upper - middle), lambda u: noises.half_width((u, one), confidence)
    )
