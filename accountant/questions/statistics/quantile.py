"""A quantile of a column, chosen among its candidates."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from accountant.errors import RequestInvalid
from accountant.questions.decimals import parse_signed_decimal
from accountant.questions.parts import ExactPart, Groups, Vector, number
from accountant.questions.schema import MAX_CANDIDATES, NumberColumn
from accountant.questions.scope import Scope
from accountant.questions.sensitivity import SelectionStatistic
from accountant.questions.statistics.base import Argument, ChoiceQuestion


class QuantileQuestion(ChoiceQuestion, frozen=True, tag="quantile"):
    """A quantile of a column of numbers, one of its declared candidates.

    Attributes:
        fraction: which part of the rows is below it, 0 to 1; 0.5 is the median.
    """

    fraction: str
    column_kind = NumberColumn
    label = "Quantile"
    arguments = (
        Argument(
            name="fraction",
            is_whole=False,
            expected="a fraction between 0 and 1, such as 0.9",
            label="fraction of rows below it",
            example="0.5",
        ),
    )
    # The fractions 0 and 1 answer the declared bounds rather than the rows (decision 0119).
    shorthands: ClassVar = {
        "median": {"fraction": "0.5"},
        "min": {"fraction": "0.05"},
        "max": {"fraction": "0.95"},
    }

    def check(self, scope: Scope) -> None:
        """Check the fraction, and that the column has not too many candidates."""
        if not 0 <= parse_signed_decimal(self.fraction, field="fraction") <= 1:
            raise RequestInvalid("fraction", "must be between 0 and 1", self.fraction)
        column = scope.numbers
        if column.candidates > MAX_CANDIDATES:
            rule = f"must have at most {MAX_CANDIDATES} candidates: declare `step` in the schema"
            fixed = f"this dataset has no quantiles of {column.name}, and its schema cannot change"
            got = f"{column.name} with {column.candidates}"
            raise RequestInvalid("column", rule, got, hint=lambda: fixed)

    def parts(self, scope: Scope) -> tuple[ExactPart, ...]:
        """Return the scores of the candidates."""
        return (QuantileScores(Fraction(self.fraction)),)


@dataclass(frozen=True, slots=True)
class QuantileScores(ExactPart):
    """The scores -|(1 - a) below - a above| of each candidate: 0 at the quantile a, less elsewhere.

    Attributes:
        fraction: a.
    """

    fraction: Fraction

    def sensitivity(self, scope: Scope) -> SelectionStatistic:
        """Return how far a unit moves two candidates' scores apart.

        A row moves the inner value by -a to 1 - a, so a unit of k rows by at most k max(a, 1 - a);
        a replaced one by at most k in one group, and by that twice where it moves to another group.
        """
        k, most = scope.rows, max(self.fraction, 1 - self.fraction)
        change = k * most
        if scope.schema.neighbours == "replace":
            change = Fraction(k) if scope.cells == 1 else 2 * k * most
        return SelectionStatistic(
            name="quantile",
            groups=scope.cells,
            candidates=scope.numbers.candidates,
            times=1,
            grid=Fraction(1, self.fraction.denominator),
            range_distance=2 * change,
        )

    def exact(self, scope: Scope, groups: Groups) -> Vector:
        """Return the scores of each group's candidates."""
        scores, column = list[Fraction](), scope.numbers
        for group in groups:
            values = list(map(number, group))
            for i in range(column.candidates):
                candidate = Fraction(column.lower) + i * column.step_size
                below = sum(value < candidate for value in values)
                above = sum(value > candidate for value in values)
                scores.append(self.score(below, above))
        return tuple(scores)

    def score(self, below: int, above: int) -> Fraction:
        """Return the score of a candidate with so many rows below and above it."""
        return -abs((1 - self.fraction) * below - self.fraction * above)
