"""How many rows each category has."""

from __future__ import annotations

from accountant.questions.parts import ExactPart, row_count
from accountant.questions.schema import CategoryColumn
from accountant.questions.scope import Scope
from accountant.questions.statistics.base import ColumnQuestion


class HistogramQuestion(ColumnQuestion, frozen=True, tag="histogram"):
    """How many rows each declared category has."""

    column_kind = CategoryColumn
    label = "Histogram: rows of each category"
    is_grouped_by_its_column = True

    def parts(self, scope: Scope) -> tuple[ExactPart, ...]:
        """Return the number of rows: its column is one of the groups."""
        return (row_count(),)

    @property
    def value_name(self) -> str:
        """The heading of its values."""
        return "count"
