"""The rows of a source as a schema reads them, in SQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec import UNSET

from accountant.questions.schema import NumberColumn, Schema
from streams.sources.cells import (
    exact_functions,
    identifier_sql,
    is_bigint,
    number_type,
    value_sql,
)
from streams.sources.row_digest import content_sql
from streams.sources.source_tables import SourceTable

_LONGEST_UNIT: Final = 64
"""A longer text is grouped by its hash: a unit with long names in many rows fills no memory."""


@dataclass(frozen=True, slots=True)
class SchemaRows:
    """SQL of rows: `u` is the unit, `unit` its text, and `c0`, `c1`, ... are the columns.

    Attributes:
        tables: whose rows together are the data; at least one.
    """

    schema: Schema
    tables: Sequence[SourceTable]

    @property
    def every(self) -> range:
        """The positions of all columns."""
        return range(len(self.schema.columns))

    @property
    def content(self) -> str:
        """The SQL of what the hash of a row is of; `sql` then reads every column."""
        return content_sql(self.schema.columns, "unit", [f"c{i}" for i in self.every])

    def define_functions(self, connection: Any) -> None:
        """Define the functions that read cells for which SQL is not exact.

        They have no side effects. But said to have them, DuckDB reads each cell once, and not again
        in each test.
        """
        for i, column in enumerate(self.schema.columns):
            if isinstance(column, NumberColumn):
                of_text, of_double = exact_functions(column)
                result = number_type(column)
                connection.create_function(
                    f"c{i}_text",
                    of_text,
                    ["VARCHAR"],
                    result,
                    null_handling="special",
                    side_effects=True,
                )
                connection.create_function(
                    f"c{i}_double", of_double, ["DOUBLE"], result, side_effects=True
                )

    def sql(self, columns: Iterable[int]) -> str:
        """Return SQL of the rows, with the columns at some positions."""
        positions = list(columns)
        return " UNION ALL ".join(self._read(table, positions) for table in self.tables)

    def _read(self, table: SourceTable, columns: Iterable[int]) -> str:
        unit, text = self._unit(table)
        values = [f"{unit} AS u", f"{text} AS unit"]
        for i in columns:
            column = self.schema.columns[i]
            values.append(f"{value_sql(column, table.columns.get(column.name), f'c{i}')} AS c{i}")
        return f"SELECT {', '.join(values)} FROM {table.sql}"

    def _unit(self, table: SourceTable) -> tuple[str, str]:
        """Return the SQL of what units are grouped by, and of their text."""
        unit = self.schema.unit
        if unit is UNSET:
            return "0::BIGINT", "''"
        cell = table.columns.get(unit.column)
        text = identifier_sql(cell)
        # Numbers are grouped faster than their digits, if all tables have numbers.
        if cell is not None and all(
            is_bigint(each.columns.get(unit.column)) for each in self.tables
        ):
            return f"{cell.reference}::BIGINT", text
        is_long = f"strlen({text}) > {_LONGEST_UNIT}"
        return f"(CASE WHEN {is_long} THEN 'sha256:' || sha256({text}) ELSE {text} END)", text
