"""The rows of a source as a schema reads them, in SQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec import UNSET

from accountant.questions.schema import NumberColumn, Schema
from accountant.questions.zone_rules import ZoneRules
from streams.sources.cells import (
    exact_functions,
    identifier_sql,
    is_bigint,
    number_type,
    time_stage,
    value_sql,
)
from streams.sources.row_digest import content_sql
from streams.sources.source_tables import SourceTable
from streams.sources.time_cells import define_zone, needs_zone, zone_join
from streams.sources.zone_files import zone_of

UNIT_TEXT: Final = "coalesce(long, u::VARCHAR)"
"""The SQL of the text of a row's unit."""
_LONGEST_UNIT: Final = 64
"""A longer text is grouped by its hash: a unit with long names in many rows fills no memory."""


@dataclass(frozen=True, slots=True)
class SchemaRows:
    """SQL of rows: `u` is the unit, and `c0`, `c1`, ... are the columns.

    `long` is the text of a unit whose `u` is no more than its hash, else NULL.

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
        return content_sql(self.schema.columns, UNIT_TEXT, [f"c{i}" for i in self.every])

    def define_functions(self, connection: Any) -> None:
        """Define the functions that read cells for which SQL is not exact, and the zone's rules.

        They have no side effects. But said to have them, DuckDB reads each cell once, and not again
        in each test.
        """
        zone = self._zone
        if zone is not None and needs_zone(self.schema, zone):
            define_zone(connection, self.schema, zone)
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

    def sql(self, columns: Iterable[int], *, units: str = "") -> str:
        """Return SQL of the rows, with the columns at some positions.

        Args:
            units: SQL of those whose rows are read; "" for all. Of others no cell is read.
        """
        positions = list(columns)
        return " UNION ALL ".join(self._read(table, positions, units) for table in self.tables)

    def _read(self, table: SourceTable, columns: Sequence[int], units: str) -> str:
        unit, long = self._unit(table)
        values = [f"{unit} AS u", f"{long} AS long"]
        values += [f"{self.value(table, i)} AS c{i}" for i in columns]
        where = f" WHERE {unit} IN ({units})" if units else ""
        return f"SELECT {', '.join(values)} FROM {self.from_sql(table, columns)}{where}"

    def value(self, table: SourceTable, i: int) -> str:
        """Return the SQL of the value of a column in what `from_sql` selects from."""
        column = self.schema.columns[i]
        return value_sql(column, table.columns.get(column.name), f"c{i}", self._zone)

    def from_sql(self, table: SourceTable, columns: Iterable[int]) -> str:
        """Return what SQL selects the values of the columns at some positions from."""
        stages = list[str]()
        joins = list[str]()
        for i in columns:
            column = self.schema.columns[i]
            stage = time_stage(column, table.columns.get(column.name))
            if stage is not None:
                stages.append(stage.columns(f"c{i}"))
            if stage is not None and stage.instant and needs_zone(self.schema, self._zone):
                joins.append(zone_join(f"c{i}"))
        if not stages:
            return table.sql
        return " ".join([f"(SELECT t.*, {', '.join(stages)} FROM {table.sql}) AS t", *joins])

    @property
    def _zone(self) -> ZoneRules | None:
        return zone_of(self.schema)

    def _unit(self, table: SourceTable) -> tuple[str, str]:
        """Return the SQL of what units are grouped by, and of a text too long for that."""
        unit, no_text = self.schema.unit, "NULL::VARCHAR"
        if unit is UNSET:
            return "0::BIGINT", no_text
        cell = table.columns.get(unit.column)
        text = identifier_sql(cell)
        # Numbers are grouped faster than their digits, if all tables have numbers.
        if cell is not None and all(
            is_bigint(each.columns.get(unit.column)) for each in self.tables
        ):
            return f"{cell.reference}::BIGINT", no_text
        is_long = f"strlen({text}) > {_LONGEST_UNIT}"
        short = f"(CASE WHEN {is_long} THEN 'sha256:' || sha256({text}) ELSE {text} END)"
        return short, f"(CASE WHEN {is_long} THEN {text} END)"
