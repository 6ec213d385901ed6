"""What one unit can change in the exact statistics of a question, for both neighbouring relations.

With at most k rows of a unit, each of them clamped, the change is a convex function of what the
unit's rows add to the cells, so that its largest value is at an extreme point: k equal rows in as
few cells as may have them, or none. docs/reference/questions.md has the table, docs/theory.md P14
and P16 the proofs; tests compare both with all small neighbouring tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from accountant.questions.scope import Scope

VectorName = Literal["count", "sum", "sum_about_middle", "squares_about_middle"]
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

    @property
    def size(self) -> int:
        """How many exact numbers it has."""
        return self.cells


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionStatistic:
    """Scores of candidates, of which an exponential mechanism chooses in each group.

    Attributes:
        groups: how many choices are made at once, from separate rows.
        candidates: of each choice.
        times: how many choices follow one another in each group, each charged.
        grid: every score is a multiple of it, whatever the data.
        range_distance: the largest difference between two candidates' changes, added up over the
            groups.
    """

    name: SelectionName
    groups: int
    candidates: int
    times: int
    grid: Fraction
    range_distance: Fraction

    @property
    def size(self) -> int:
        """How many exact numbers it has: a score for each candidate of each group."""
        return self.groups * self.candidates


def sum_over_rows(
    name: VectorName, scope: Scope, *, grid: Fraction, lower: Fraction, upper: Fraction
) -> VectorStatistic:
    """Return a sum over rows of values in [lower, upper], for each group.

    Added or removed, a unit adds up to k rows of size M = max(|lower|, |upper|), at most m of them
    in a group. Replaced, its rows leave cells for others, or change from one extreme to the other
    in the same ones; none at all counts as 0. Source: docs/theory.md P14 and P16 (own derivations).
    """
    k, m = scope.rows, min(scope.rows, scope.rows_per_group)
    full, rest = divmod(k, m)
    shorter, size = sorted((max(Fraction(0), -lower), max(Fraction(0), upper)))
    l1, l2_squared = k * size, (full * m**2 + rest**2) * size**2
    if scope.schema.neighbours == "replace":
        across = size + shorter
        l1, l2_squared = k * across, (k * across) ** 2
        if scope.cells > 1:
            each = max(across**2, 2 * size**2)
            # A full group of one table may meet the rest of the other's, in two groups.
            crossed = 2 * (m * size + rest * shorter) ** 2
            last = max((m**2 + rest**2) * each, crossed)
            l1, l2_squared = 2 * k * size, (full - 1) * m**2 * each + last
    return VectorStatistic(name=name, cells=scope.cells, grid=grid, l1=l1, l2_squared=l2_squared)
