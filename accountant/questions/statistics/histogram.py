"""How many rows each category, each of true and false, or each band of numbers has."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from accountant.errors import RequestInvalid
from accountant.questions.group_functions import bands_of_width
from accountant.questions.groups import ColumnGroups, GroupSet
from accountant.questions.parts import ExactPart, row_count
from accountant.questions.schema import (
    BooleanColumn,
    CalendarColumn,
    CategoryColumn,
    Column,
    NumberColumn,
    name_text,
)
from accountant.questions.scope import Scope
from accountant.questions.statistics.base import ColumnQuestion


class HistogramQuestion(ColumnQuestion, frozen=True, kw_only=True, tag="histogram"):
    """How many rows each declared value has, or each band of numbers.

    Attributes:
        width: of the bands of a column of numbers.
    """

    width: str | UnsetType = UNSET
    column_kind = CategoryColumn
    other_kinds = (BooleanColumn, NumberColumn)
    label = "Histogram: rows of each category"

    def own_groups(self, column: Column | None) -> GroupSet:
        """Return the values of its column, or its bands."""
        assert column is not None, "a histogram has a column"
        assert not isinstance(column, CalendarColumn), "`check_question` checks its kind"
        name = name_text(column.name)
        if isinstance(column, NumberColumn):
            if self.width is UNSET:
                hint = f"write histogram({name}, width 10)"
                raise RequestInvalid(
                    "column", "must have a width of bands", name, hint=lambda: hint
                )
            heading = f"band({name}, width {self.width})"
            return bands_of_width(column, self.width, heading=heading, field="width")
        if self.width is not UNSET:
            raise RequestInvalid("width", "must be left out but for numbers", self.width)
        return ColumnGroups(column)

    def parts(self, scope: Scope) -> tuple[ExactPart, ...]:
        """Return the number of rows: its column makes the groups."""
        return (row_count(),)

    @property
    def value_name(self) -> str:
        """The heading of its values."""
        return "count"
