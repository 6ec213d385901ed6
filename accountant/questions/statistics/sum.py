"""The sum of a column."""

from __future__ import annotations

from accountant.questions.parts import ExactPart, sum_of_values
from accountant.questions.schema import NumberColumn
from accountant.questions.scope import Scope
from accountant.questions.statistics.base import ColumnQuestion


class SumQuestion(ColumnQuestion, frozen=True, tag="sum"):
    """The sum of a column of numbers."""

    column_kind = NumberColumn
    label = "Sum"

    def parts(self, scope: Scope) -> tuple[ExactPart, ...]:
        """Return the sum."""
        return (sum_of_values(scope.numbers),)
