"""The files and tables of a source: their columns, by the names that they give them themselves.

DuckDB makes names unique, without regard to case: `age, AGE` become `age, AGE_1`. So names come
from the file, and columns are distinguished by their positions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from streams.error_words import meaning_of
from streams.sources.cells import CSV_TEXT, HALF_FLOAT, SourceColumn
from streams.sources.csv_records import CsvRecords
from streams.sources.quoted import name_literal, table_names, text_literal
from streams.sources.view_names import InnerNames, folded

_PARQUET_HALF: Final = "Float16Type()"
_IDENTIFIER: Final = r'(?:"(?:[^"]|"")*"|[^\s"(),.]+)'
_EACH_IDENTIFIER: Final = re.compile(_IDENTIFIER)
_VIEW: Final = re.compile(
    rf"CREATE VIEW {_IDENTIFIER}(?:\.{_IDENTIFIER})* "
    rf"(?:\((?P<names>{_IDENTIFIER}(?:, {_IDENTIFIER})*)\) )?AS (?P<query>.*)",
    re.DOTALL,
)
"""A view as DuckDB writes it."""


class SourceProblem(Exception):
    """A source cannot be read, in words for the log that have no cell of the data."""


class EnvironmentProblem(SourceProblem):
    """The same words of something that may pass: no cell is its cause."""


class SourceChanged(EnvironmentProblem):
    """A source's files are not those any more whose reading had begun."""


class TimeProblem(EnvironmentProblem):
    """The time of a reading is over; another one would take as long."""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """One file or table of a source.

    Attributes:
        sql: what SQL selects from; its columns are `t.x0`, `t.x1`, ...
        columns: by their exact names.
        repeated: names that no column has for itself; they are not among `columns`.
        is_stored: each cell is stored in the file, and none is computed when it is read.
        records: of a CSV file.
    """

    sql: str
    columns: dict[str, SourceColumn]
    repeated: frozenset[str]
    is_stored: bool = True
    records: CsvRecords | None = None


def csv_table(connection: Any, path: str, delimiter: str, table: str) -> SourceTable:
    """Give a connection the records of a CSV file; return them as a table of texts.

    Raises: SourceProblem.
    """
    try:
        records = CsvRecords(Path(path), delimiter)
    except OSError as error:
        raise EnvironmentProblem(f"its first line cannot be read: {meaning_of(error)}") from error
    connection.register(table, records)
    # The engine never sees these names, so it makes none of them another's.
    counts = Counter(records.names)
    positions = [i for i, name in enumerate(records.names) if counts[name] == 1]
    columns = {records.names[i]: SourceColumn(f"t.x{i}", CSV_TEXT) for i in positions}
    repeated = frozenset(counts) - set(columns)
    return SourceTable(f"{records.sql(table, positions)} AS t", columns, repeated, records=records)


def parquet_table(connection: Any, path: str) -> SourceTable:
    """Return a Parquet file as a table."""
    file = text_literal(path)
    query = f"SELECT name, num_children, logical_type FROM parquet_schema({file})"
    names = list[str]()
    halves = list[int]()  # positions of numbers that DuckDB widens to 32 bits
    missing = list[int]()  # children that are still to come, of each column that this one is in
    for name, children, logical_type in connection.execute(query).fetchall()[1:]:
        if missing:
            missing[-1] -= 1
        else:
            if logical_type == _PARQUET_HALF:
                halves.append(len(names))
            names.append(name)
        missing.append(children or 0)
        while missing and missing[-1] == 0:
            missing.pop()
    sql = f"read_parquet({file}, hive_partitioning = false)"
    return _described(connection, sql, names, types=dict.fromkeys(halves, HALF_FLOAT))


def duckdb_table(connection: Any, table: str) -> SourceTable:
    """Return a table or view of the attached file `source`.

    Raises: SourceProblem: there is none, or a view cannot be described.
    """
    *schemas, name = table_names(table)
    schema = schemas[0] if schemas else "main"
    sql = ".".join(map(name_literal, ["source", *schemas, name]))
    view = _definition(connection, "view", schema, name)
    if view is not None:
        names, inner = _names_of_view(connection, schema, view)
        return _described(connection, sql, names, inner, is_stored=False)
    definition = _definition(connection, "table", schema, name)
    if definition is None:
        raise SourceProblem("there is no such table")
    # In a name or default value it does no harm: the table is only copied without need.
    is_computed = "GENERATED ALWAYS" in definition
    return _described(connection, sql, is_stored=not is_computed)


def copied(connection: Any, source: SourceTable, names: Collection[str], copy: str) -> SourceTable:
    """Copy the columns with some names, by a statement that knows no question; return the copy.

    What a view computes may fail; of the copy nothing does.
    """
    columns = {name: cell for name, cell in source.columns.items() if name in names}
    cells = ", ".join(["NULL AS x", *(cell.reference for cell in columns.values())])
    connection.execute(f"CREATE TEMP TABLE {copy} AS SELECT {cells} FROM {source.sql}")
    return SourceTable(f"{copy} AS t", columns, source.repeated, is_stored=False)


def _definition(connection: Any, kind: str, schema: str, name: str) -> str | None:
    """Return the SQL that made a table or view of `source`; names are compared as DuckDB does."""
    found = connection.execute(
        f"SELECT sql FROM duckdb_{kind}s() WHERE database_name = 'source' "
        f"AND lower(schema_name) = lower({text_literal(schema)}) "
        f"AND lower({kind}_name) = lower({text_literal(name)})"
    ).fetchone()
    return None if found is None else str(found[0])


def _names_of_view(connection: Any, schema: str, definition: str) -> tuple[list[str], InnerNames]:
    """Return the names that a view gives its columns, also those that DuckDB makes unique.

    The second are the names of the queries within it.

    Raises: SourceProblem: this program cannot read the view's definition.
    """
    view = _VIEW.fullmatch(definition)
    if view is None:
        raise SourceProblem("its view has a definition of another form")

    def query_of(reference: Mapping[str, Any]) -> str | None:
        named = reference["schema_name"] or schema
        inner = _definition(connection, "view", named, reference["table_name"])
        found = None if inner is None else _VIEW.fullmatch(inner)
        return None if found is None else found["query"]

    # Of its own: a query that cannot be described would end the transaction.
    with connection.cursor() as cursor:
        cursor.execute(f"USE source.{name_literal(schema)}")
        described = cursor.execute(f"DESCRIBE {view['query']}").fetchall()
        inner = InnerNames(cursor, query_of)
        inner.add(view["query"])
    own = [_plain_name(name) for name in _EACH_IDENTIFIER.findall(view["names"] or "")]
    return own + [name for name, *_ in described[len(own) :]], inner


def _plain_name(identifier: str) -> str:
    if identifier.startswith('"'):
        return identifier[1:-1].replace('""', '"')
    return identifier


def _described(
    connection: Any,
    sql: str,
    names: Sequence[str] | None = None,
    inner: InnerNames | None = None,
    *,
    types: Mapping[int, str] = MappingProxyType({}),
    is_stored: bool = True,
) -> SourceTable:
    """Return what SQL selects from as a table.

    Args:
        names: of its columns, where DuckDB may have renamed them.
        inner: those of the queries within a view, which DuckDB has renamed.
        types: of columns by position, where DuckDB says less than the file.
    Raises: SourceProblem: there are not as many names as columns.
    """
    described = connection.sql(f"SELECT * FROM {sql} LIMIT 0")
    if names is None:
        names = described.columns
    if len(names) != len(described.columns):
        raise SourceProblem("its columns cannot be distinguished")
    counts = Counter(map(folded, names))
    columns = dict[str, SourceColumn]()
    for i, (name, type_) in enumerate(zip(names, described.types, strict=True)):
        is_another = inner is not None and inner.may_be_another(name)
        if counts[folded(name)] == 1 and not is_another:
            decimal = dict(type_.children) if type_.id == "decimal" else {}
            columns[name] = SourceColumn(
                f"t.x{i}",
                types.get(i, type_.id),
                decimal.get("scale", 0),
                decimal.get("precision", 0),
            )
    references = ", ".join(f"x{i}" for i in range(len(names)))
    repeated = frozenset(names) - set(columns)
    return SourceTable(f"{sql} AS t({references})", columns, repeated, is_stored)
