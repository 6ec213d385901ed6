"""The most frequent categories of a column, chosen one after another."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from accountant.errors import RequestInvalid
from accountant.questions.parts import ExactPart, Groups, Vector
from accountant.questions.schema import CategoryColumn
from accountant.questions.scope import Scope
from accountant.questions.sensitivity import SelectionStatistic
from accountant.questions.statistics.base import Argument, ChoiceQuestion

MAX_SELECTIONS: Final = 100


class TopQuestion(ChoiceQuestion, frozen=True, tag="top"):
    """The most frequent of the declared categories, without their counts.

    Attributes:
        most: how many of them.
    """

    most: int
    column_kind = CategoryColumn
    label = "Most frequent categories"
    arguments = (
        Argument(
            name="most", is_whole=True, expected="a whole number", label="how many", example="3"
        ),
    )
    is_ranked = True

    def check(self, scope: Scope) -> None:
        """Check how many there are to choose from."""
        most = min(len(scope.categories.categories), MAX_SELECTIONS)
        if not 1 <= self.most <= most:
            raise RequestInvalid("most", f"must be between 1 and {most}", self.most)

    def parts(self, scope: Scope) -> tuple[ExactPart, ...]:
        """Return the counts of the categories."""
        return (CategoryCounts(self.most),)

    @property
    def in_each_group(self) -> int:
        """How many categories each group has."""
        return self.most


@dataclass(frozen=True, slots=True)
class CategoryCounts(ExactPart):
    """How many rows each category has, as scores.

    Attributes:
        most: how many of the categories are chosen.
    """

    most: int

    def sensitivity(self, scope: Scope) -> SelectionStatistic:
        """Return how far a unit moves two counts apart.

        They all grow, or all fall, unless a unit is replaced.
        """
        k = scope.rows
        distance = 2 * k if scope.schema.neighbours == "replace" else k
        return SelectionStatistic(
            name="top",
            groups=scope.cells,
            candidates=len(scope.categories.categories),
            times=self.most,
            grid=Fraction(1),
            range_distance=Fraction(distance),
        )

    def exact(self, scope: Scope, groups: Groups) -> Vector:
        """Return the counts of each group's categories."""
        categories = scope.categories.categories
        return tuple(
            [
                Fraction(sum(value == category for value in group))
                for group in groups
                for category in categories
            ]
        )
