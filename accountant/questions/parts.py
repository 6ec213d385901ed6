"""Parts: the exact statistics that answers are computed from, before their noise.

A part says what one unit can change in it, and what it is of small tables. Its SQL is in
`streams/sources/statistics.py`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from accountant.questions.schema import NumberColumn
from accountant.questions.schema_values import SchemaValue
from accountant.questions.scope import Scope
from accountant.questions.sensitivity import (
    SelectionStatistic,
    VectorName,
    VectorStatistic,
    sum_over_rows,
)

Vector = tuple[Fraction, ...]
Groups = Sequence[Sequence[SchemaValue]]
"""Of each row of each group, the value of the statistic's column; True where it has none."""


class ExactPart(ABC):
    """An exact statistic. Nothing is assumed of its sensitivity: each class states its own."""

    @abstractmethod
    def sensitivity(self, scope: Scope) -> VectorStatistic | SelectionStatistic:
        """Return the statistic with what a unit changes in it."""

    @abstractmethod
    def exact(self, scope: Scope, groups: Groups) -> Vector:
        """Return a number for each group, or a score for each candidate of each group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSum(ExactPart):
    """A sum of what each row adds, for each group.

    Attributes:
        grid: every summand is a multiple of it.
        lower, upper: bounds of a summand, whatever the data. The sensitivity follows from them.
        summand: what a row adds, from the value of the statistic's column.
    """

    name: VectorName
    grid: Fraction
    lower: Fraction
    upper: Fraction
    summand: Callable[[SchemaValue], Fraction]

    def sensitivity(self, scope: Scope) -> VectorStatistic:
        """Return what k rows of a unit change, each within the bounds."""
        return sum_over_rows(self.name, scope, grid=self.grid, lower=self.lower, upper=self.upper)

    def exact(self, scope: Scope, groups: Groups) -> Vector:
        """Return the sum of each group."""
        return tuple([sum(map(self.summand, group), Fraction(0)) for group in groups])


def row_count() -> RowSum:
    """Return the number of rows."""
    one = Fraction(1)
    return RowSum(name="count", grid=one, lower=one, upper=one, summand=lambda _: one)


def sum_of_values(column: NumberColumn) -> RowSum:
    """Return the sum of the values of a column."""
    lower, upper = column.bounds
    return RowSum(name="sum", grid=column.grid, lower=lower, upper=upper, summand=number)


def middle_of(column: NumberColumn) -> Fraction:
    """Return the middle of a column's bounds on its grid; between two values the one nearer to 0.

    Source: docs/theory.md P14. It is a constant of the schema: with one that the data choose, such
    as their mean, a unit would move every row's summand.
    """
    lower, upper = column.bounds
    return math.trunc((lower + upper) / (2 * column.grid)) * column.grid


def middle_square_of(column: NumberColumn) -> Fraction:
    """Return half of the largest squared distance from the middle, on the grid of squares."""
    unit = column.grid**2
    return math.trunc(_largest_square(column) / (2 * unit)) * unit


def sum_about_middle(column: NumberColumn) -> RowSum:
    """Return the sum of x - c over the values x of a column, c the middle of its bounds."""
    (lower, upper), middle = column.bounds, middle_of(column)
    return RowSum(
        name="sum_about_middle",
        grid=column.grid,
        lower=lower - middle,
        upper=upper - middle,
        summand=lambda value: number(value) - middle,
    )


def squares_about_middle(column: NumberColumn) -> RowSum:
    """Return the sum of (x - c)^2 - q: squares are counted from their middle q, too."""
    middle, middle_square = middle_of(column), middle_square_of(column)
    return RowSum(
        name="squares_about_middle",
        grid=column.grid**2,
        lower=-middle_square,
        upper=_largest_square(column) - middle_square,
        summand=lambda value: (number(value) - middle) ** 2 - middle_square,
    )


def _largest_square(column: NumberColumn) -> Fraction:
    return max(abs(bound - middle_of(column)) for bound in column.bounds) ** 2


def number(value: SchemaValue) -> Fraction:
    """Return a value of a number column."""
    assert isinstance(value, Fraction), "a number column has no other values"
    return value
