"""Where a question looks: the rows of its filter, its groups, and the column of its statistic."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from msgspec import UNSET

from accountant.questions.filter_expression import FilterExpression, columns_of
from accountant.questions.groups import GroupSet
from accountant.questions.quotients import clamp
from accountant.questions.schema import CategoryColumn, Column, NumberColumn, Schema
from accountant.questions.schema_values import SchemaValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What a statistic is of, as a schema allows it.

    Attributes:
        schema: which allows it.
        filter: None for every row.
        column: of the statistic, None of a count.
        groups: what sets the answers apart; of a histogram its own column is the first.
        rows: the most rows of a unit that enter the statistic.
        rows_per_group: the most of them in each group.
    """

    schema: Schema
    filter: FilterExpression | None
    column: Column | None
    groups: tuple[GroupSet, ...]
    rows: int
    rows_per_group: int

    @property
    def cells(self) -> int:
        """How many groups there are."""
        return math.prod(each.size for each in self.groups)

    @property
    def known_count(self) -> int | None:
        """How many rows enter, where the schema states it: a constant, whatever the data.

        It does so of all rows, with the schema's own bound, where no value is missing. With
        groups or a filter a count depends on the data.
        """
        whole = self.filter is None and not self.groups and self.rows == self.schema.rows_per_unit
        complete = self.column is None or self.column.missing is not UNSET
        return self.schema.size if self.schema.size is not UNSET and whole and complete else None

    @property
    def own_columns(self) -> set[str]:
        """The names of the columns that it reads, its filter included."""
        names = {each.column.name for each in self.groups}
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

    def statistic_value(self, row: Mapping[str, SchemaValue | None]) -> SchemaValue | None:
        """Return what a row adds to the statistic, None if its column's value is missing.

        A question may clamp a number to narrower bounds than the schema's. The claim is by
        the bounds of `column`, and so are the values that enter.
        """
        if self.column is None:
            return True
        value = row[self.column.name]
        if isinstance(value, Fraction) and isinstance(self.column, NumberColumn):
            return clamp(value, self.column.bounds)
        return value

    def each_group(self) -> Iterator[tuple[str | bool, ...]]:
        """Yield the names of each group, in the order of the answers."""
        return product(*(each.values for each in self.groups))

    def group_place(self, row: Mapping[str, SchemaValue | None]) -> int:
        """Return the position of a row's group in the answers.

        Args:
            row: values by column, none of the groups' columns missing.
        """
        place = 0
        for each in self.groups:
            value = row[each.column.name]
            assert value is not None, "a row without a value enters no group"
            place = place * each.size + each.place(value)
        return place
