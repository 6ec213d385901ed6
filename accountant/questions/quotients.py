"""Mean and variance from released sums: post-processing, total whatever the noise."""

from __future__ import annotations

from fractions import Fraction

from accountant.questions.schema import NumberColumn


def mean_value(column: NumberColumn, *, count: Fraction, total: Fraction) -> Fraction:
    """Return the mean of released numbers, within the column's bounds.

    A count below 1 is taken as 1, so nothing is divided by zero.
    """
    lower, upper = column.bounds
    return min(max(total / max(count, Fraction(1)), lower), upper)


def variance_value(
    column: NumberColumn, *, count: Fraction, total: Fraction, squares: Fraction
) -> Fraction:
    """Return the variance of released numbers (divided by n), at least 0.

    No numbers of that range have more than a quarter of its square. A count below 1 is taken as 1.
    """
    lower, upper = column.bounds
    n = max(count, Fraction(1))
    return min(max(squares / n - (total / n) ** 2, Fraction(0)), ((upper - lower) / 2) ** 2)
