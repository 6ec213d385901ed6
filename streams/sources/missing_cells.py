"""How many cells of a source are missing, as a schema reads them: numbers of the data, unprotected.

They are for the owner who checks a schema, and for nobody else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec
from msgspec import UNSET

from accountant.questions.schema import Schema
from streams.sources.cells import SourceColumn, identifier_sql
from streams.sources.csv_records import CsvRecords, LineFlaws
from streams.sources.database import OpenedSource, connected, files_of, run
from streams.sources.schema_rows import SchemaRows
from streams.sources.source_facts import problem_of
from streams.sources.source_settings import CsvSource, SourceSettings
from streams.sources.source_tables import SourceProblem, SourceTable


class MissingCells(msgspec.Struct, frozen=True, kw_only=True):
    """The missing cells of a column.

    Attributes:
        empty: NULL, an empty cell of CSV, or the column is not there.
        unread: other cells that have no value of the schema.
    """

    empty: int
    unread: int

    @property
    def count(self) -> int:
        """All of them."""
        return self.empty + self.unread


class SourceCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of a source, and their missing cells.

    Attributes:
        columns: of each declared column, without what `missing` puts in their place.
        unit: cells that name no unit, so that their rows are dropped; None without a unit.
        lines: what is wrong with lines of CSV files; None of other kinds.
        entering: rows that enter a question without a filter, to compare with the schema's size;
            None where it states none.
    """

    rows: int
    columns: dict[str, MissingCells]
    unit: MissingCells | None
    lines: LineFlaws | None
    entering: int | None = None


def count_missing(
    settings: SourceSettings, schema: Schema, repeated: Collection[str]
) -> SourceCounts:
    """Read a source in full, and count what a question on it would not see.

    Args:
        repeated: names that several columns have; their cells count as empty.
    Raises: SourceProblem: it cannot be read, in words that have no cell. EnvironmentProblem.
    """
    columns = [msgspec.structs.replace(column, missing=UNSET) for column in schema.columns]
    names = {column.name for column in columns}
    if schema.unit is not UNSET:
        names.add(schema.unit.column)
    try:
        with connected(settings, names.difference(repeated)) as source:
            plain = msgspec.structs.replace(schema, columns=tuple(columns))
            return _counts(source, plain, _line_flaws(settings))
    except SourceProblem:
        raise
    except Exception as error:
        problem = problem_of(error, "a cell")
    # Outside the handler: no traceback leads to the cause, whose words may have cells.
    raise problem


def _counts(source: OpenedSource, schema: Schema, lines: LineFlaws | None) -> SourceCounts:
    read = SchemaRows(schema, source.tables)
    read.define_functions(source.connection)
    totals = [
        run(
            source.connection,
            f"SELECT {', '.join(_sums(read, table))} FROM {read.from_sql(table, read.every)}",
        )[0]
        for table in source.tables
    ]
    rows, *numbers = map(sum, zip(*totals, strict=True))
    pairs = [
        MissingCells(empty=empty, unread=unread)
        for empty, unread in zip(numbers[::2], numbers[1::2], strict=True)
    ]
    unit = None if schema.unit is UNSET else pairs.pop()
    columns = {column.name: pair for column, pair in zip(schema.columns, pairs, strict=True)}
    entering = None if schema.size is UNSET else _entering(source, read)
    return SourceCounts(rows=rows, columns=columns, unit=unit, lines=lines, entering=entering)


def _entering(source: OpenedSource, read: SchemaRows) -> int:
    """Return how many rows enter a question without a filter."""
    rows = f"SELECT u FROM ({read.sql([])}) WHERE u IS NOT NULL"
    entering = "count(*)"
    if read.schema.unit is not UNSET:
        rows = f"SELECT least(count(*), {read.schema.rows_per_unit}) AS n FROM ({rows}) GROUP BY u"
        entering = "coalesce(sum(n), 0)"
    ((found,),) = run(source.connection, f"SELECT {entering} FROM ({rows})")
    return int(found)


def _sums(read: SchemaRows, table: SourceTable) -> Iterator[str]:
    """Yield the SQL of the number of rows, then of each column's empty and unread cells."""
    yield "count(*)"
    schema = read.schema
    for i, column in enumerate(schema.columns):
        yield from _missing(table.columns.get(column.name), read.value(table, i))
    if schema.unit is not UNSET:
        cell = table.columns.get(schema.unit.column)
        yield from _missing(cell, identifier_sql(cell))


def _missing(cell: SourceColumn | None, value: str) -> Iterator[str]:
    reference = "NULL" if cell is None else cell.reference
    yield f"count(*) FILTER ({reference} IS NULL)"
    yield f"count(*) FILTER ({reference} IS NOT NULL AND {value} IS NULL)"


def _line_flaws(settings: SourceSettings) -> LineFlaws | None:
    if not isinstance(settings, CsvSource):
        return None
    found = [CsvRecords(Path(path), settings.delimiter).flaws() for path in files_of(settings)]
    return LineFlaws(
        open_quotes=sum(each.open_quotes for each in found),
        not_utf8=sum(each.not_utf8 for each in found),
    )
