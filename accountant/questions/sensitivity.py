"""What one unit can change in the exact statistics of a question, for both neighbouring relations.

With at most k rows of a unit, each of them clamped, the change is a convex function of what the
unit's rows add to the cells, so that its largest value is at an extreme point: k equal rows in one
cell, or none. docs/reference/questions.md has the table; tests compare it with all small
neighbouring tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from accountant.questions.question import (
    CheckedQuestion,
    CountQuestion,
    HistogramQuestion,
    MeanQuestion,
    QuantileQuestion,
    SumQuestion,
    TopQuestion,
    VarianceQuestion,
)
from accountant.questions.schema import CategoryColumn, NumberColumn

VectorName = Literal["count", "sum", "sum_of_squares"]
SelectionName = Literal["quantile", "top"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorStatistic:
    """Numbers on a grid, one for each group, that get noise.

    Attributes:
        cells: how many numbers.
        grid: every number is a multiple of it, whatever the data.
        l1: the largest sum of the changes' sizes that one unit makes, in the statistic's units.
        l2_squared: the largest sum of their squares.
    """

    name: VectorName
    cells: int
    grid: Fraction
    l1: Fraction
    l2_squared: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionStatistic:
    """Scores of candidates, of which an exponential mechanism chooses in each group.

    Attributes:
        groups: how many choices are made at once, from separate rows.
        candidates: of each choice.
        times: how many choices follow one another in each group, each charged.
        range_distance: the largest difference between two candidates' changes, added up over the
            groups.
    """

    name: SelectionName
    groups: int
    candidates: int
    times: int
    range_distance: Fraction


def statistics_of(
    checked: CheckedQuestion,
) -> tuple[VectorStatistic, ...] | SelectionStatistic:
    """Return the exact statistics that a question reads, with what a unit changes in them.

    Raises: TypeError: nobody has said what a unit changes. A guess would add too little noise.
    """
    question, column = checked.question, checked.column
    match question:
        case QuantileQuestion() if isinstance(column, NumberColumn):
            return _quantile(checked, Fraction(question.fraction), column.candidates)
        case TopQuestion() if isinstance(column, CategoryColumn):
            return _top(checked, question.most, len(column.categories))
        case SumQuestion() if isinstance(column, NumberColumn):
            return (_sum(checked, column),)
        case MeanQuestion() if isinstance(column, NumberColumn):
            return (_count(checked), _sum(checked, column))
        case VarianceQuestion() if isinstance(column, NumberColumn):
            return (_count(checked), _sum(checked, column), _sum_of_squares(checked, column))
        case CountQuestion() | HistogramQuestion():
            return (_count(checked),)
    raise TypeError(f"no sensitivity of {type(question).__name__}")


def _count(checked: CheckedQuestion) -> VectorStatistic:
    one = Fraction(1)
    return _additive("count", checked, grid=one, lower=one, upper=one)


def _sum(checked: CheckedQuestion, column: NumberColumn) -> VectorStatistic:
    lower, upper = column.bounds
    return _additive("sum", checked, grid=column.grid, lower=lower, upper=upper)


def _sum_of_squares(checked: CheckedQuestion, column: NumberColumn) -> VectorStatistic:
    # A unit may have no row, so that the least square of one changes nothing.
    largest = max(abs(bound) for bound in column.bounds) ** 2
    grid = column.grid**2
    return _additive("sum_of_squares", checked, grid=grid, lower=Fraction(0), upper=largest)


def _additive(
    name: VectorName,
    checked: CheckedQuestion,
    *,
    grid: Fraction,
    lower: Fraction,
    upper: Fraction,
) -> VectorStatistic:
    """Return a sum over rows of values in [lower, upper], for each group.

    Added or removed, a unit adds up to k rows of size M = max(|lower|, |upper|). Replaced, its rows
    leave one cell for another (k M in both), or change from one extreme to the other in the same
    one; none at all counts as 0.
    """
    k, size = checked.rows, max(abs(lower), abs(upper))
    l1 = k * size
    l2_squared = l1**2
    if checked.schema.neighbours == "replace":
        within = k * (max(Fraction(0), upper) - min(Fraction(0), lower))
        l1, l2_squared = within, within**2
        if checked.cells > 1:
            l1, l2_squared = 2 * k * size, max(2 * (k * size) ** 2, l2_squared)
    return VectorStatistic(name=name, cells=checked.cells, grid=grid, l1=l1, l2_squared=l2_squared)


def _quantile(checked: CheckedQuestion, fraction: Fraction, candidates: int) -> SelectionStatistic:
    """Return the scores -|(1 - a) below - a above| of each candidate, a = `fraction`.

    A row moves the inner value by -a to 1 - a, so a unit of k rows by at most k max(a, 1 - a); a
    replaced one by at most k in one group, and by that twice where it moves to another group.
    """
    k, most = checked.rows, max(fraction, 1 - fraction)
    change = k * most
    if checked.schema.neighbours == "replace":
        change = Fraction(k) if checked.cells == 1 else 2 * k * most
    return SelectionStatistic(
        name="quantile",
        groups=checked.cells,
        candidates=candidates,
        times=1,
        range_distance=2 * change,
    )


def _top(checked: CheckedQuestion, most: int, candidates: int) -> SelectionStatistic:
    """Return the counts of each category: they all grow, or all fall, unless a unit is replaced."""
    k = checked.rows
    distance = 2 * k if checked.schema.neighbours == "replace" else k
    return SelectionStatistic(
        name="top",
        groups=checked.cells,
        candidates=candidates,
        times=most,
        range_distance=Fraction(distance),
    )
