"""DuckDB, locked down: one source to read, nothing to write, bounded memory and time."""

from __future__ import annotations

import contextlib
import glob
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from streams.error_words import meaning_of
from streams.errors import NotInstalled, needs_extra
from streams.files.temporary_directories import SPILL, temporary_directory
from streams.sources.postgresql import copied_from_postgresql
from streams.sources.quoted import text_literal
from streams.sources.source_settings import (
    CsvSource,
    DuckdbSource,
    ParquetSource,
    PostgresqlSource,
    SourceSettings,
)
from streams.sources.source_tables import (
    EnvironmentProblem,
    SourceChanged,
    SourceProblem,
    SourceTable,
    TimeProblem,
    copied,
    csv_table,
    duckdb_table,
    parquet_table,
)

OPTIMIZERS: Final = frozenset(
    (
        *("expression_rewriter", "in_clause", "unused_columns", "column_lifetime"),
        *("common_subexpressions", "common_aggregate", "aggregate_reuse", "duplicate_groups"),
    )
)
"""Of DuckDB's optimizers, those that leave filters and joins where SQL has them."""
_NO_NETWORK: Final = {
    "allow_community_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    # SQL never reads a variable of this program.
    "python_enable_replacements": "false",
}
_ROWS_OF_A_MB: Final = 1_000
"""A row with its digest takes some 200 bytes in each thread: a fifth of the memory is enough."""


SourceVersion = tuple[tuple[int, ...] | None, ...]
"""Tells the content of a source's files from what they had before, as far as a file system can."""


class Interruption:
    """Ends what the reading of a source waits for, from another thread."""

    def __init__(self, connection: Any) -> None:
        self._ends: list[Callable[[], None]] = [connection.interrupt]
        self._was_called = False

    def add(self, end: Callable[[], None]) -> None:
        """Call this function, too; at once where the reading was interrupted before."""
        self._ends.append(end)
        if self._was_called:
            end()

    def interrupt(self) -> None:
        """End what is waited for now. A connection that is closed meanwhile waits for nothing."""
        self._was_called = True
        for end in reversed(self._ends):
            with contextlib.suppress(import_duckdb().Error):
                end()


class _TimeLimit:
    """Interrupts a reading once its time is over."""

    def __init__(self, interruption: Interruption, seconds: float) -> None:
        self._interruption = interruption
        self._seconds = seconds
        self._timer: threading.Timer | None = None
        self.is_over = False
        self.start(times=1)

    def start(self, *, times: int) -> None:
        """Start again, with so many times the source's seconds."""
        self.cancel()
        self.is_over = False
        self._timer = threading.Timer(self._seconds * times, self._end)
        self._timer.daemon = True
        self._timer.start()

    def _end(self) -> None:
        self.is_over = True
        self._interruption.interrupt()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


@dataclass(frozen=True, slots=True)
class OpenedSource:
    """A source that is open, in one transaction.

    Attributes:
        connection: to DuckDB.
        tables: whose rows together are the data; at least one.
        version: of the files that have all the cells; None where other cells are read, too.
    """

    connection: Any
    tables: list[SourceTable]
    version: SourceVersion | None
    _settings: SourceSettings
    _files: Sequence[str]
    _before: SourceVersion
    _limit: _TimeLimit

    @property
    def rows_at_once(self) -> int:
        """How many rows of crowded units fit into the memory of all threads together."""
        return self._settings.memory_mb * _ROWS_OF_A_MB // self._settings.threads

    def check_spill(self, needed: int) -> None:
        """Check that so many bytes may be written to the temporary directory.

        Raises: SourceProblem: the source's settings allow fewer.
        """
        most, needed_mb = self._settings.spill_mb, -(-needed // 1_000_000)
        if needed_mb > most:
            raise SourceProblem(
                f"a question may write {needed_mb:,} MB to the disk, more than its spill_mb "
                f"({most:,}) allows"
            )

    def limit_time(self, *, times: int) -> None:
        """Give what follows so many times the source's seconds."""
        self._limit.start(times=times)

    def check_unchanged(self) -> None:
        """Check that what was read until now is of one version, whole, and was read in time.

        Raises: SourceProblem.
        """
        for table in self.tables:
            if table.records is not None and table.records.fault is not None:
                raise EnvironmentProblem(f"it cannot be read: {cause_of(table.records.fault)}")
        if self._limit.is_over:
            raise TimeProblem("reading it took too long")
        _check_version(self._files, self._before)


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
def connected(
    settings: SourceSettings,
    names: Collection[str] | None = frozenset(),
    *,
    interruptible: Callable[[Interruption], None] = lambda _: None,
) -> Iterator[OpenedSource]:
    """Connect to a source.

    Statements end with an error after the source's seconds, unless `limit_time` gives them more.

    Args:
        names: of the columns that a schema declares, its unit included; None where nothing but
            names and types is read.
        interruptible: gets what ends the reading, before it begins.
    Raises: SourceProblem: the source cannot be opened, or has two columns of such a name.
        SourceChanged: it has changed while it was read, whatever else has failed.
    """
    duckdb = import_duckdb()
    # What does not fit into memory.
    with temporary_directory(SPILL) as spill:
        files = files_of(settings)
        before = _version(files)
        connection = duckdb.connect(
            ":memory:",
            config={
                **_NO_NETWORK,
                "threads": settings.threads,
                "memory_limit": f"{settings.memory_mb}MB",
                "temp_directory": spill,
                "max_temp_directory_size": f"{settings.spill_mb}MB",
                # No secret of this user is read.
                "secret_directory": spill,
                "temp_file_encryption": "true",
                # Without it DuckDB writes no encrypted file, and more than fits into memory fails.
                # Its keys can be guessed, so the page on sources promises nothing of them.
                "force_mbedtls_unsafe": "true",
                "preserve_insertion_order": "false",
            },
        )
        interruption = Interruption(connection)
        interruptible(interruption)
        limit = _TimeLimit(interruption, settings.seconds)
        try:
            _attach(connection, settings, files)
            run(connection, "BEGIN TRANSACTION")
            tables = _tables(connection, settings, files, names, interruption)
            _check_names(tables, names or ())
            is_stored = all(table.is_stored for table in tables)
            _keep_filters_above_cells(connection)
            run(connection, "SET lock_configuration = true")
            version = before if is_stored else None
            opened = OpenedSource(connection, tables, version, settings, files, before, limit)
            yield opened
            opened.check_unchanged()
        except Exception as error:
            # What was not of one version says nothing of the next one.
            _check_version(files, before)
            # The limit also cuts a connection to another server, which then is lost.
            passing = (EnvironmentProblem, duckdb.InterruptException)
            if isinstance(error, passing) and limit.is_over:
                raise TimeProblem("reading it took too long") from error
            raise
        finally:
            limit.cancel()
            connection.close()


def version_of(settings: SourceSettings) -> SourceVersion:
    """Return the version of a source's files; it says nothing of what else is read.

    Raises: SourceProblem: a file is not there.
    """
    return _version(files_of(settings))


def cause_of(error: Exception) -> str:
    """Return words for the log, without those of DuckDB, which may have cells."""
    if isinstance(error, SourceProblem):
        return str(error)
    duckdb = import_duckdb()
    if isinstance(error, duckdb.IOException) and "Could not set lock" in str(error):
        return "another process has it open for writing"
    if _is_full(error):
        return "it needs more of the disk than its spill_mb allows"
    words = {
        duckdb.OutOfMemoryException: "it needs more memory than its memory_mb allows",
        duckdb.InterruptException: "its reading was stopped",
        duckdb.IOException: "a file cannot be read, or the temporary directory is full",
        duckdb.CatalogException: "there is no such table, or a view names what is not there",
        duckdb.BinderException: "there is no such column, or a view names what is not there",
        duckdb.PermissionException: "it names what a source may not read, such as another file",
        duckdb.FatalException: "the database engine has failed",
        duckdb.InternalException: "the database engine has failed",
        duckdb.Error: "a cell cannot be read, or the file is damaged",
        MemoryError: "there is no memory left",
    }
    found = next((words[each] for each in type(error).__mro__ if each in words), None)
    if found is None and isinstance(error, OSError):
        return meaning_of(error)
    return found or "reading it failed by a defect of this program"


def _is_full(error: Exception) -> bool:
    """Tell whether DuckDB has written to the temporary directory all that it may."""
    is_memory = isinstance(error, import_duckdb().OutOfMemoryException)
    return is_memory and "max_temp_directory_size" in str(error)


def is_of_the_environment(error: Exception) -> bool:
    """Tell whether an error says nothing of a source's cells: the same reading may succeed."""
    duckdb = import_duckdb()
    passing = (duckdb.IOException, duckdb.OutOfMemoryException, duckdb.InterruptException)
    is_passing = isinstance(error, (*passing, EnvironmentProblem, OSError, MemoryError))
    return is_passing and not _is_full(error)


def may_pass(error: Exception) -> bool:
    """Tell whether a source that could not be opened is worth another try soon."""
    is_time = isinstance(error, (import_duckdb().InterruptException, TimeProblem))
    return is_of_the_environment(error) and not is_time


def run(connection: Any, statement: str) -> list[Any]:
    """Run a statement to its end; return its rows."""
    rows: list[Any] = connection.execute(statement).fetchall()
    return rows


def files_of(settings: SourceSettings) -> list[str]:
    """Return the paths of a source's files, in their order. Raises: SourceProblem."""
    try:
        return _files_of(settings)
    except OSError as error:  # such as a directory that this process may not enter
        raise EnvironmentProblem(meaning_of(error)) from error


def _files_of(settings: SourceSettings) -> list[str]:
    match settings:
        case PostgresqlSource():
            return []
        case DuckdbSource(path=pattern):
            found = [pattern]
        case ParquetSource(path=pattern) | CsvSource(path=pattern):
            found = sorted(glob.glob(pattern))  # noqa: PTH207  (a Path takes no absolute pattern)
    for path in found:
        if glob.has_magic(path):
            raise SourceProblem("a file's name has one of the characters *?[")
    if not found and glob.has_magic(settings.path):
        raise EnvironmentProblem("no file matches its pattern")
    if any(Path(path).is_dir() for path in found):
        raise EnvironmentProblem("its path is a directory. Name its files: DIRECTORY/*.parquet")
    if any(Path(path).exists() and not Path(path).is_file() for path in found):
        raise EnvironmentProblem("its path is a pipe or a device. Name a regular file")
    if not found or not all(Path(path).is_file() for path in found):
        directory = Path(pattern).parent
        is_there = directory.is_dir() or glob.has_magic(str(directory))
        raise EnvironmentProblem(f"there is no such {'file' if is_there else 'directory'}")
    return found


def _version(files: Sequence[str]) -> SourceVersion:
    # DuckDB reads the log beside a database, too.
    return tuple(map(_file_version, [*files, *(f"{path}.wal" for path in files)]))


def _check_version(files: Sequence[str], before: SourceVersion) -> None:
    """Raises: SourceChanged: these files have another version, or nobody can tell."""
    try:
        is_same = _version(files) == before
    except EnvironmentProblem:
        is_same = False
    if not is_same:
        raise SourceChanged("its files changed while they were read")


def _file_version(path: str) -> tuple[int, ...] | None:
    try:
        file = Path(path).stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EnvironmentProblem(meaning_of(error)) from error
    # The last one also moves where a program sets the time of the content back.
    return (file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns, file.st_ctime_ns)


def _attach(connection: Any, settings: SourceSettings, files: Sequence[str]) -> None:
    """Give a connection its source, and lock other files and the network away."""
    match settings:
        case ParquetSource():
            # Statistics of a file may leave NaN out.
            run(connection, "SET parquet_can_have_nan = true")
        case CsvSource() | PostgresqlSource():
            pass
        case DuckdbSource():
            run(connection, f"ATTACH {text_literal(files[0])} AS source (READ_ONLY)")
    paths = ", ".join(map(text_literal, files))
    run(connection, f"SET allowed_paths = [{paths}]")
    run(connection, "SET enable_external_access = false")


def _tables(
    connection: Any,
    settings: SourceSettings,
    files: Sequence[str],
    names: Collection[str] | None,
    interruption: Interruption,
) -> list[SourceTable]:
    """Return the tables of a source: those whose cells are computed as copies."""
    match settings:
        case ParquetSource():
            return [parquet_table(connection, path) for path in files]
        case CsvSource():
            return [
                csv_table(connection, path, settings.delimiter, f"csv_{i}")
                for i, path in enumerate(files)
            ]
        case DuckdbSource():
            table = duckdb_table(connection, settings.table)
            if table.is_stored or names is None:
                return [table]
            return [copied(connection, table, names, "copied")]
        case PostgresqlSource():
            add = interruption.add
            return [copied_from_postgresql(connection, settings, names, "copied", until=add)]


def _check_names(tables: Sequence[SourceTable], names: Collection[str]) -> None:
    repeated = sorted(name for table in tables for name in table.repeated if name in names)
    if repeated:
        raise SourceProblem(f"several of its columns are named {repeated[0]!r}, in whatever case")


def _keep_filters_above_cells(connection: Any) -> None:
    """Switch all optimizers off but a few, so that each row's cells are read before a filter."""
    every = [name for (name,) in run(connection, "SELECT name FROM duckdb_optimizers()")]
    disabled = ",".join(name for name in every if name not in OPTIMIZERS)
    run(connection, f"SET disabled_optimizers = {text_literal(disabled)}")
