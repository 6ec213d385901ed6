"""Tables of PostgreSQL: one transaction names the columns and copies them for DuckDB.

PostgreSQL computes what a view defines, so a cell may fail there. It gets no filter, group or
statistic of a question: each question's copy has the same columns and the same verdict.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from streams.errors import NotInstalled, Refused, needs_extra
from streams.files.private_files import read_private
from streams.sources.cells import SourceColumn
from streams.sources.quoted import name_literal, table_names
from streams.sources.source_settings import PostgresqlSource
from streams.sources.source_tables import EnvironmentProblem, SourceProblem, SourceTable

_MOST_CONNECTION: Final = 10_000
_MOST_CONNECT_S: Final = 10
"""Nothing interrupts an attempt to connect."""
_AFTERWARDS_S: Final = 10
"""When the server ends a statement that nobody waits for any more."""
_CELLS_AT_ONCE: Final = 100_000
_CHARACTERS_AT_ONCE: Final = 8_000_000
_PORT: Final = "5432"
_THIS_MACHINE: Final = frozenset(("", "localhost", "127.0.0.1", "::1"))
_PLACES: Final = 18
"""Digits after the point that a number keeps: more than a column of a schema may have."""

_COLUMNS: Final = """
WITH RECURSIVE described AS (
    SELECT attnum, attname, atttypid AS type, atttypmod AS modifier
    FROM pg_attribute
    JOIN pg_class ON pg_class.oid = attrelid
    JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname = %s AND relname = %s AND relkind IN ('r', 'v', 'm', 'f', 'p')
    AND attnum > 0 AND NOT attisdropped
    UNION ALL
    SELECT attnum, attname, typbasetype, typtypmod
    FROM described JOIN pg_type ON oid = type WHERE typtype = 'd'
)
SELECT attname, format_type(type, modifier), modifier, CASE
    WHEN typtype = 'e' THEN 'enum' WHEN nspname = 'pg_catalog' THEN typname ELSE '' END
FROM described JOIN pg_type ON pg_type.oid = type
JOIN pg_namespace ON pg_namespace.oid = typnamespace
WHERE typtype <> 'd' ORDER BY attnum
"""
"""A domain's column has the type below it."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a table or view.

    Attributes:
        type: as PostgreSQL writes it; of a domain, the type below it.
        modifier: of the type, such as the places of a number.
        base: PostgreSQL's internal name of a type of its own; `enum` for each enumeration.
    """

    name: str
    type: str
    modifier: int
    base: str

    @property
    def places(self) -> int:
        """Digits after the point of a `numeric`: none where they are declared negative."""
        if self.base != "numeric":
            return 0
        places = (self.modifier - 4) & 0x7FF
        return _PLACES if self.modifier < 0 else 0 if places & 0x400 else places

    @property
    def reading(self) -> _Reading | None:
        """How its cells are read; None if each of them is missing."""
        if self.base == "numeric":
            return _OTHER_NUMERIC if self.places else _WHOLE_NUMERIC
        return _READINGS.get(self.base)

    def source_column(self, reference: str) -> SourceColumn:
        """Return what SQL reads where the copy has a column of this name."""
        if self.reading is None:
            return SourceColumn(reference, self.type)
        digits = (self.modifier - 4) >> 16 & 0xFFFF if self.places else 0
        return SourceColumn(reference, self.reading.type_id, self.places, digits)


@dataclass(frozen=True, slots=True)
class _Reading:
    """How cells of a type are read.

    Attributes:
        sql: of a cell, `{x}` is its column.
        sent: the type in which PostgreSQL sends it.
        stored: the type in which DuckDB stores it.
        type_id: DuckDB's name of such a type.
    """

    sql: str
    sent: str
    stored: str
    type_id: str


def _whole(type_id: str) -> _Reading:
    return _Reading("{x}::int8", "int8", "BIGINT", type_id)


def _text(type_id: str) -> _Reading:
    # The cast drops the spaces that fill a char(n) up.
    return _Reading("{x}::text", "text", "VARCHAR", type_id)


def _moment(number: str, stored: str, type_id: str) -> _Reading:
    # Sent as numbers, so that no year is beyond what a library reads.
    return _Reading(f"CASE WHEN isfinite({{x}}) THEN {number} END", "int8", stored, type_id)


# Times from 10^12 s on are beyond the years of a schema.
_SECONDS: Final = "greatest(-1e12, least(1e12, floor(extract(epoch FROM {x}))))::int8"
_READINGS: Final = {
    "date": _moment("({x} - date '1970-01-01')::int8", "DATE", "date"),
    "timestamp": _moment(_SECONDS, "TIMESTAMP_S", "timestamp_s"),
    "timestamptz": _moment(_SECONDS, "TIMESTAMPTZ", "timestamp with time zone"),
    "int2": _whole("smallint"),
    "int4": _whole("integer"),
    "int8": _whole("bigint"),
    "float4": _Reading("{x}", "float4", "FLOAT", "float"),
    "float8": _Reading("{x}", "float8", "DOUBLE", "double"),
    "bool": _Reading("{x}", "bool", "BOOLEAN", "boolean"),
    **dict.fromkeys(("text", "varchar", "bpchar"), _text("varchar")),
    "uuid": _text("uuid"),
    "enum": _text("enum"),
}
_WHOLE_NUMERIC: Final = _Reading(
    "CASE WHEN {x} <> 'NaN' THEN {x}::text END", "text", "VARCHAR", "bignum"
)
# Numbers from 10^37 on are beyond every bound of a schema, infinity too. The middle of two values
# has at most 13 places, and what is rounded down to 18 stays on its side of it.
_OTHER_NUMERIC: Final = _Reading(
    f"CASE WHEN {{x}} <> 'NaN' THEN "
    f"(floor(least(1e37, greatest(-1e37, {{x}})) * 1e{_PLACES}) * 1e-{_PLACES})::text END",
    "text",
    "VARCHAR",
    "decimal",
)


def import_psycopg() -> Any:
    """Return the module `psycopg`.

    Raises: NotInstalled: the message names the extra.
    """
    try:
        import psycopg
    except ModuleNotFoundError as error:
        raise NotInstalled(
            needs_extra("a data source in PostgreSQL", error.name or "psycopg", "answers")
        ) from error
    return psycopg


def databases_of(connection_file: str) -> set[tuple[str, str, str]]:
    """Return host, port and name of each database that a connection may lead to.

    A host is known by its name or address alone, or as this machine. None where that is not known
    now: without the file, or without psycopg.
    """
    try:
        psycopg = import_psycopg()
        given = psycopg.conninfo.conninfo_to_dict(_connection_text(connection_file))
    except (NotInstalled, EnvironmentProblem):
        return set()
    except psycopg.Error:  # no connection text
        return set()
    defaults = {
        each.keyword.decode(): each.val.decode()
        for each in psycopg.pq.Conninfo.get_defaults()
        if each.val
    }
    used = {**defaults, **given}
    name = str(used.get("dbname") or used.get("user") or "")
    ports = str(used.get("port") or "").split(",")
    found = set[tuple[str, str, str]]()
    for key in ("host", "hostaddr"):
        hosts = str(used.get(key) or "").split(",") if key in used or key == "host" else []
        for i, host in enumerate(hosts):
            found.add((_plain_host(host), ports[min(i, len(ports) - 1)] or _PORT, name))
    return found


def _plain_host(host: str) -> str:
    plain = host.strip().lower().rstrip(".")
    return "localhost" if plain in _THIS_MACHINE or plain.startswith(("/", "@")) else plain


def copied_from_postgresql(
    connection: Any,
    settings: PostgresqlSource,
    names: Collection[str] | None,
    copy: str,
    *,
    until: Callable[[Callable[[], None]], None],
) -> SourceTable:
    """Copy the columns with some names to a temporary table of DuckDB; return it.

    Args:
        connection: to DuckDB.
        names: others are not read; None where nothing but names and types is.
        copy: name of the temporary table.
        until: gets a function that ends the reading, from another thread.
    Raises: SourceProblem.
    """
    with _transaction(settings, until) as transaction:
        described = _columns(transaction, settings)
        if names is None:
            columns = {column.name: column.source_column("NULL") for column in described}
            return SourceTable(copy, columns, frozenset(), is_stored=False)
        read = [column for column in described if column.name in names and column.reading]
        readings = {column.name: column.reading for column in read if column.reading}
        types = [reading.stored for reading in readings.values()]
        listed = ", ".join(["x BOOLEAN", *(f"x{i} {type_}" for i, type_ in enumerate(types))])
        connection.execute(f"CREATE TEMP TABLE {copy} ({listed})")
        with _rows(transaction, settings.table, readings) as rows:
            for batch in _batches(rows, types):
                connection.register("batch", batch)
                connection.execute(f"INSERT INTO {copy} FROM batch")
                connection.unregister("batch")
        # The copy's transaction sees neither names nor types that were new when it began to read.
        transaction.rollback()
        if _columns(transaction, settings) != described:
            raise EnvironmentProblem("its columns changed while they were read")
    columns = {column.name: column.source_column(f"t.x{i}") for i, column in enumerate(read)}
    return SourceTable(f"{copy} AS t", columns, frozenset(), is_stored=False)


@contextlib.contextmanager
def _transaction(
    settings: PostgresqlSource,
    until: Callable[[Callable[[], None]], None] = lambda _: None,
) -> Iterator[Any]:
    """Connect; each transaction of the connection reads one snapshot and writes nothing.

    What PostgreSQL says of an error may have cells, or the connection's text: its class is named.
    """
    psycopg = import_psycopg()
    with contextlib.ExitStack() as open_now:
        try:
            transaction = _connected(psycopg, settings)
        except psycopg.Error as error:
            raise EnvironmentProblem(_words(error)) from error
        open_now.callback(transaction.close)
        # A number of a closed file may be another file's: this one is open as long as needed.
        reached = socket.socket(fileno=os.dup(transaction.fileno()))
        open_now.callback(reached.close)

        def interrupt() -> None:
            with contextlib.suppress(OSError):  # it is closed
                reached.shutdown(socket.SHUT_RDWR)

        until(interrupt)
        try:
            yield transaction
        except psycopg.OperationalError as error:
            raise EnvironmentProblem(_words(error)) from error
        except psycopg.Error as error:
            raise SourceProblem(_words(error)) from error


def _connected(psycopg: Any, settings: PostgresqlSource) -> Any:
    given = psycopg.conninfo.conninfo_to_dict(_connection_text(settings.connection_file))
    given.setdefault("application_name", "accountant")
    given["connect_timeout"] = min(settings.seconds, _MOST_CONNECT_S)
    given["client_encoding"] = "utf8"
    # Statements are not prepared: a pool between here and the server may forget them.
    connection = psycopg.connect(**given, prepare_threshold=None)
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    return connection


def _columns(transaction: Any, settings: PostgresqlSource) -> list[_Column]:
    """Begin a transaction; return the columns of a table or view.

    Raises: SourceProblem: there is none, or it has no columns.
    """
    limit_s = settings.seconds + _AFTERWARDS_S
    transaction.execute(f"SET LOCAL statement_timeout = {limit_s * 1000}")
    # A name without a schema, also in a function that a view calls, is PostgreSQL's own.
    transaction.execute("SET LOCAL search_path = ''")
    *schemas, name = table_names(settings.table)
    rows = transaction.execute(_COLUMNS, (schemas[0] if schemas else "public", name)).fetchall()
    if not rows:
        raise SourceProblem("there is no such table")
    return [_Column(name, type_, modifier, base) for name, type_, modifier, base in rows]


@contextlib.contextmanager
def _rows(
    transaction: Any, table: str, readings: Mapping[str, _Reading]
) -> Iterator[Iterator[Sequence[object]]]:
    """Read the rows of a table, of which one at a time is in memory."""
    names = table_names(table)
    qualified = ".".join(map(name_literal, names if len(names) > 1 else ["public", *names]))
    cells = [reading.sql.format(x=name_literal(name)) for name, reading in readings.items()]
    statement = f"SELECT {', '.join(['NULL::bool', *cells])} FROM {qualified}"
    copied = transaction.cursor().copy(f"COPY ({statement}) TO STDOUT (FORMAT BINARY)")
    with copied as copying:
        copying.set_types(["bool", *(reading.sent for reading in readings.values())])
        try:
            yield copying.rows()
        except BaseException:
            # Otherwise the rest is waited for, and the log gets what PostgreSQL says of it.
            transaction.close()
            raise


def _batches(rows: Iterable[Sequence[object]], types: Sequence[str]) -> Iterator[Any]:
    """Return rows as tables of Arrow, of bounded size but for one row."""
    texts = [i + 1 for i, type_ in enumerate(types) if type_ == "VARCHAR"]
    most = _CELLS_AT_ONCE // (len(types) + 1)
    batch, characters = list[Sequence[object]](), 0
    for row in rows:
        batch.append(row)
        characters += sum(len(str(row[i])) for i in texts)
        if len(batch) >= most or characters >= _CHARACTERS_AT_ONCE:
            yield _arrow(batch, types)
            batch, characters = [], 0
    if batch:
        yield _arrow(batch, types)


def _arrow(rows: Sequence[Sequence[object]], types: Sequence[str]) -> Any:
    import pyarrow as pa

    arrow = {
        "BOOLEAN": pa.bool_(),
        "BIGINT": pa.int64(),
        "FLOAT": pa.float32(),
        "DOUBLE": pa.float64(),
        "VARCHAR": pa.string(),
        "DATE": pa.date32(),
        "TIMESTAMP_S": pa.timestamp("s"),
        "TIMESTAMPTZ": pa.timestamp("s", "UTC"),
    }
    cells = zip(*rows, strict=True)
    arrays = [
        pa.array(each, arrow[type_]) for each, type_ in zip(cells, ["BOOLEAN", *types], strict=True)
    ]
    return pa.Table.from_arrays(arrays, names=[f"x{i}" for i in range(len(arrays))])


_MEANING: Final = {
    "08": "the connection was lost",
    "28": "its user or password is rejected",
    "3D": "there is no such database",
    "42501": "its user may not read the table",
    "42P01": "there is no such table",
    "42703": "there is no such column",
    "53": "it lacks memory, disk or connections",
    "57014": "the statement was cancelled",
    "57": "it is shutting down",
    "22": "a cell cannot be read",
}


def _words(error: Any) -> str:
    """Return words that have nothing of the data: by the class of PostgreSQL's own code."""
    code = error.sqlstate or ""
    if not code:
        return "PostgreSQL cannot be reached, or has ended the connection"
    words = next((said for begin, said in _MEANING.items() if code.startswith(begin)), "it failed")
    return f"PostgreSQL: {words} (SQLSTATE {code})"


def _connection_text(path: str) -> str:
    try:
        content = read_private(
            Path(path),
            _MOST_CONNECTION,
            what="the file of a connection",
            then="change its password",
        ).content
        return content.decode().strip()
    except (OSError, ValueError, Refused) as error:
        raise EnvironmentProblem("the connection's file cannot be read") from error
