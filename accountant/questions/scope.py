"""Where a question looks: the rows of its filter, its groups, and the column of its statistic."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from accountant.questions.filter_expression import FilterExpression, columns_of
from accountant.questions.schema import (
    BooleanColumn,
    CategoryColumn,
    Column,
    NumberColumn,
    Schema,
)
from accountant.questions.schema_values import SchemaValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What a statistic is of, as a schema allows it.

    Attributes:
        schema: which allows it.
        filter: None for every row.
        column: of the statistic, None of a count.
        groups: columns whose values set the answers apart; of a histogram its own is the first.
        rows: the most rows of a unit that enter the statistic.
    """

    schema: Schema
    filter: FilterExpression | None
    column: Column | None
    groups: tuple[CategoryColumn | BooleanColumn, ...]
    rows: int

    @property
    def cells(self) -> int:
        """How many groups there are."""
        return math.prod(len(group_values(column)) for column in self.groups)

    @property
    def column_names(self) -> set[str]:
        """The names of the columns that the question reads, its filter included."""
        names = {column.name for column in self.groups}
        if self.column is not None:
            names.add(self.column.name)
        return names if self.filter is None else names | columns_of(self.filter)

    @property
    def numbers(self) -> NumberColumn:
        """The column of a statistic of numbers."""
        assert isinstance(self.column, NumberColumn), "`check_question` checks the column's kind"
        return self.column

    @property
    def categories(self) -> CategoryColumn:
        """The column of a statistic of categories."""
        assert isinstance(self.column, CategoryColumn), "`check_question` checks the column's kind"
        return self.column

    def each_group(self) -> Iterator[tuple[SchemaValue, ...]]:
        """Yield the values of each group, in the order of the answers."""
        return product(*map(group_values, self.groups))


def group_values(column: CategoryColumn | BooleanColumn) -> tuple[str | bool, ...]:
    """Return the declared values of a column, in their order."""
    return column.categories if isinstance(column, CategoryColumn) else (False, True)
