"""DuckDB, locked down: one source to read, nothing to write, bounded memory and time."""

from __future__ import annotations

import contextlib
import glob
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from streams.errors import NotInstalled, Refused, needs_extra
from streams.private_files import read_private
from streams.sources.cells import CSV_TEXT, SourceColumn
from streams.sources.csv_records import CsvRecords
from streams.sources.quoted import name_literal, text_literal
from streams.sources.source_settings import (
    CsvSource,
    DuckdbSource,
    ParquetSource,
    PostgresqlSource,
    SourceSettings,
)

_MOST_CONNECTION: Final = 10_000
_NO_NETWORK: Final = {
    "allow_community_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    # SQL never reads a variable of this program.
    "python_enable_replacements": "false",
}


class SourceProblem(Exception):
    """A source cannot be read, in words for the log that have no cell of the data."""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """One file or table of a source.

    Attributes:
        sql: what SQL selects from.
        columns: by their exact names; `reference` is unique in the table.
    """

    sql: str
    columns: dict[str, SourceColumn]


def import_duckdb() -> Any:
    """Return the module `duckdb`.

    Raises: NotInstalled: the message names the extra.
    """
    try:
        import duckdb
        import numpy as np  # noqa: F401 - DuckDB needs it to call a Python function
        import pyarrow as pa  # noqa: F401 - gives DuckDB the lines of a CSV file
    except ModuleNotFoundError as error:
        module = error.name or "duckdb"
        raise NotInstalled(needs_extra("a data source", module, "answers")) from error
    return duckdb


@contextlib.contextmanager
def connected(settings: SourceSettings) -> Iterator[tuple[Any, list[SourceTable]]]:
    """Connect to a source; yield the connection and the source's tables.

    Statements end with an error after the source's seconds.

    Raises: SourceProblem: the source cannot be opened, or has changed while it was read.
    """
    duckdb = import_duckdb()
    # What does not fit into memory: only its user can read it, and it is encrypted.
    with tempfile.TemporaryDirectory(prefix="accountant-source-") as spill:
        files = _files(settings)
        before = _versions(files)
        connection = duckdb.connect(
            ":memory:",
            config={
                **_NO_NETWORK,
                "threads": settings.threads,
                "memory_limit": f"{settings.memory_mb}MB",
                "temp_directory": spill,
                # No secret of this user is read; the extension of PostgreSQL fails without any.
                "secret_directory": spill,
                "temp_file_encryption": "true",
                "preserve_insertion_order": "false",
            },
        )
        timeout = threading.Timer(settings.seconds, connection.interrupt)
        timeout.daemon = True
        try:
            timeout.start()
            sources = _attach(connection, settings, files)
            run(connection, "BEGIN TRANSACTION")
            tables = [
                source if isinstance(source, SourceTable) else _described(connection, source)
                for source in sources
            ]
            yield connection, tables
            if not timeout.is_alive():
                raise SourceProblem("reading it took too long")
            if _versions(files) != before:
                raise SourceProblem("its files changed while they were read")
        finally:
            timeout.cancel()
            connection.close()


def run(connection: Any, statement: str) -> list[Any]:
    """Run a statement to its end; return its rows."""
    rows: list[Any] = connection.execute(statement).fetchall()
    return rows


def _files(settings: SourceSettings) -> list[str]:
    """Return the paths of a source's files, in their order."""
    match settings:
        case PostgresqlSource():
            return []
        case DuckdbSource():
            found = [settings.path]
        case ParquetSource() | CsvSource():
            found = sorted(glob.glob(settings.path))  # noqa: PTH207  (a Path takes no absolute pattern)
    for path in found:
        if glob.has_magic(path):
            raise SourceProblem("a file's name has one of the characters *?[")
    if not found or not all(Path(path).is_file() for path in found):
        raise SourceProblem("there is no such file")
    return found


def _versions(files: Sequence[str]) -> list[tuple[int, ...]]:
    try:
        each = [Path(path).stat() for path in files]
    except OSError as error:
        raise SourceProblem(error.strerror or type(error).__name__) from error
    return [(one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns) for one in each]


def _attach(
    connection: Any, settings: SourceSettings, files: Sequence[str]
) -> list[str | SourceTable]:
    """Give a connection its source, and lock everything else away.

    Returns: tables, or what SQL selects from, to be described in the transaction that reads it.
    """
    sources = list[str | SourceTable]()
    match settings:
        case ParquetSource():
            # Statistics of a file may leave NaN out.
            run(connection, "SET parquet_can_have_nan = true")
            for path in files:
                sql = f"read_parquet({text_literal(path)}, hive_partitioning = false)"
                sources.append(sql)
        case CsvSource():
            for i, path in enumerate(files):
                sources.append(_csv_table(connection, path, settings.delimiter, f"csv_{i}"))
        case DuckdbSource():
            run(connection, f"ATTACH {text_literal(files[0])} AS source (READ_ONLY)")
            sources.append(_table_name(settings.table))
        case PostgresqlSource():
            # Loaded from where `INSTALL postgres` has put it; nothing is fetched here.
            run(connection, "LOAD postgres")
            text = _connection_text(settings.connection_file)
            run(connection, f"ATTACH {text_literal(text)} AS source (TYPE postgres, READ_ONLY)")
            sources.append(_table_name(settings.table))
    paths = ", ".join(map(text_literal, files))
    run(connection, f"SET allowed_paths = [{paths}]")
    run(connection, "SET enable_external_access = false")
    run(connection, "SET lock_configuration = true")
    return sources


def _table_name(table: str) -> str:
    return ".".join(map(name_literal, ["source", *table.split(".")]))


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
        raise SourceProblem("the connection's file cannot be read") from error


def _csv_table(connection: Any, path: str, delimiter: str, table: str) -> SourceTable:
    """Give a connection the records of a CSV file; return them as a table of texts."""
    try:
        records = CsvRecords(Path(path), delimiter)
    except OSError as error:
        raise SourceProblem(f"its first line cannot be read: {type(error).__name__}") from error
    connection.register(table, records)
    positions = dict[str, int]()
    for i, name in enumerate(records.names):
        positions.setdefault(name, i)
    columns = {name: SourceColumn(f"t.x{i}", CSV_TEXT) for name, i in positions.items()}
    return SourceTable(f"{records.sql(table, list(positions.values()))} AS t", columns)


def _described(connection: Any, sql: str) -> SourceTable:
    described = connection.sql(f"SELECT * FROM {sql} LIMIT 0")
    references = [f"x{i}" for i in range(len(described.columns))]
    columns = dict[str, SourceColumn]()
    for name, reference, type_ in zip(described.columns, references, described.types, strict=True):
        places = dict(type_.children)["scale"] if type_.id == "decimal" else 0
        columns.setdefault(name, SourceColumn(f"t.{reference}", type_.id, places))
    return SourceTable(f"{sql} AS t({', '.join(references)})", columns)
