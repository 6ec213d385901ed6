"""Whether a question fails never depends on which rows it touches."""

from __future__ import annotations

import errno
import logging
import os
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from accountant.questions.schema import SourceKind
from streams.sources import DataSources, SourceAway, SourceUnreadable
from streams.sources.csv_records import CsvRecords
from streams.sources.database import OPTIMIZERS, OpenedSource, connected, run
from streams.sources.first_reading import FirstReadings
from streams.sources.schema_rows import SchemaRows
from streams.sources.source_settings import (
    CsvSource,
    DuckdbSource,
    ParquetSource,
    SourceSettings,
)
from streams.sources.source_tables import SourceProblem
from streams.sources.statistics import statistics
from tests.accountant.questions.schemas import small_schema
from tests.nightly import rounds
from tests.streams.sources.damaged_files import odd_file, texts_of_bytes
from tests.streams.sources.source_files import Columns, asked, write_csv

UNREADABLE = "the source census cannot be read"
QUESTIONS = (
    *("count", "count where x = 1", "count where x > 2 and t = true", "count where c = 'a'"),
    *("count where c = 'b' and x < 0", "count where t = false", "sum(x)", "mean(x) where c = 'b'"),
    *("median(x) by t", "histogram(c)", "top(c, 1)", "count where x is missing rows 1"),
)
FILES = rounds(3, 2_000)
SETTINGS = CsvSource(path="t.csv")


def answered(sources: DataSources, text: str, kind: SourceKind) -> str | None:
    """Return the words of a question's failure, None if it has an answer."""
    try:
        sources.statistics(asked(text, small_schema(), kind), key=b"k")
    except SourceUnreadable as error:
        return str(error)
    return None


def verdicts(
    settings: SourceSettings, kind: SourceKind, texts: Iterable[str] = QUESTIONS[1 : rounds(3, 5)]
) -> set[str | None]:
    """Ask questions one after another, and some of a process that has asked nothing before."""
    sources = DataSources({"census": settings})
    found = {answered(sources, text, kind) for text in texts}
    return found | {answered(DataSources({"census": settings}), "count where x = 1", kind)}


def engine_reads(settings: SourceSettings) -> bool:
    """Tell whether the engine reads every cell of a source, without the product."""
    with duckdb.connect() as connection:
        try:
            match settings:
                case ParquetSource(path=path):
                    connection.execute(f"CREATE TABLE t AS FROM read_parquet('{path}')")
                case DuckdbSource(path=path, table=table):
                    connection.execute(f"ATTACH '{path}' AS source (READ_ONLY)")
                    connection.execute(f"CREATE TABLE t AS FROM source.{table}")
                case _:
                    assert isinstance(settings, CsvSource)
        except duckdb.Error:
            return False
    return True


def test_all_questions_on_a_file_have_one_verdict(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    readable = 0
    for seed in range(FILES):
        draw = random.Random(seed)
        odd = odd_file(draw, tmp_path)
        reads = engine_reads(odd.settings)
        caplog.clear()
        with caplog.at_level(logging.ERROR):
            found = verdicts(odd.settings, odd.kind, draw.sample(QUESTIONS, 4)[: rounds(2, 4)])
        assert found == {None if reads else UNREADABLE}, f"file {seed}: {odd.what}"
        # The same reading has failed, whatever a question's filter is.
        causes = {record.getMessage() for record in caplog.records}
        assert len(causes) == (not reads), f"file {seed}: {odd.what}"
        readable += reads
    assert 0.1 < readable / FILES < 0.9


def of_one_cell(cells: Any, *, others: int = 399) -> dict[str, Any]:
    """Return the columns of so many people and of one more, whose `c` is in `cells`."""
    return {
        "unit": [str(i) for i in range(others + 1)],
        "x": [1] * (others + 1),
        "c": cells,
        "t": [False] * others + [True],
    }


def test_a_text_that_is_not_utf_8_shows_nobody(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    cells = texts_of_bytes([b"a"] * 399 + [b"\xff"])
    pq.write_table(pa.table(of_one_cell(cells)), path, use_dictionary=False)
    assert verdicts(ParquetSource(path=str(path)), "parquet") == {UNREADABLE}


def test_json_that_is_none_shows_nobody(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    texts = pa.array(["1"] * 399 + ["oops"])
    cells = pa.ExtensionArray.from_storage(pa.json_(), texts)
    pq.write_table(pa.table(of_one_cell(cells)), path)
    assert verdicts(ParquetSource(path=str(path)), "parquet") == {UNREADABLE}


@pytest.mark.parametrize(
    "computed",
    ["(100 // visits)", "CASE WHEN t THEN error('no') ELSE 1 END", "CAST(texts AS INTEGER)"][
        : rounds(2, 3)
    ],
)
def test_what_a_view_computes_shows_nobody(computed: str, tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute(
            "CREATE TABLE kept AS SELECT range::VARCHAR AS unit, 'a' AS c, range = 7 AS t, "
            "(range != 7)::INTEGER AS visits, "
            "CASE WHEN range = 7 THEN 'oops' ELSE '1' END AS texts "
            "FROM range(400)"
        )
        for name, where in (("every", ""), ("other", " WHERE t = false")):
            connection.execute(
                f"CREATE VIEW {name} AS SELECT unit, c, t, {computed} AS x FROM kept{where}"
            )
    assert verdicts(DuckdbSource(path=str(path), table="every"), "duckdb") == {UNREADABLE}
    assert verdicts(DuckdbSource(path=str(path), table="other"), "duckdb") == {None}


def test_a_column_that_no_schema_names_fails_no_question(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    odd = texts_of_bytes([b"a"] * 399 + [b"\xff"])
    columns = {**of_one_cell(["a"] * 400), "comment": odd}
    pq.write_table(pa.table(columns), path)
    assert verdicts(ParquetSource(path=str(path)), "parquet") == {None}


# -- versions


PLAIN: Columns = {
    "unit": (pa.string(), ["u", "v"]),
    "x": (pa.int64(), [1, 2]),
    "c": (pa.string(), ["a", "b"]),
    "t": (pa.bool_(), [True, False]),
}


def test_each_version_of_a_file_has_a_verdict_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    contents = list[bytes]()
    for odd in (b"b", b"\xff"):
        table = pa.table(of_one_cell(texts_of_bytes([b"a", odd]), others=1))
        pq.write_table(
            table, path, compression="none", write_statistics=False, use_dictionary=False
        )
        contents.append(path.read_bytes())
    plain, damaged = contents
    assert len(plain) == len(damaged)
    sources = DataSources({"census": ParquetSource(path=str(path))})
    assert answered(sources, "count where x = 5", "parquet") == UNREADABLE
    path.write_bytes(plain)
    stat = path.stat()
    assert answered(sources, "count where x = 5", "parquet") is None
    # The same file, size and time of the content: the file system has a time of its own.
    path.write_bytes(damaged)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert answered(sources, "count where x = 5", "parquet") == UNREADABLE


def test_what_the_log_of_a_database_holds_is_of_its_version(tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS x")
    settings = DuckdbSource(path=str(path), table="t")
    with connected(settings) as opened:
        before = opened.version
    wal = tmp_path / "t.duckdb.wal"
    wal.write_bytes(b"")
    with connected(settings) as opened:
        assert opened.version != before


def test_what_the_environment_does_is_no_verdict(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    sources = DataSources({"census": write_csv(path, PLAIN)})
    path.rename(tmp_path / "away")
    assert answered(sources, "count", "csv") == UNREADABLE
    (tmp_path / "away").rename(path)
    assert answered(sources, "count", "csv") is None


def test_another_table_of_one_file_has_a_verdict_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"
    with duckdb.connect(path) as connection:
        columns = "1 AS unit, 1 AS x, 'a' AS c, true AS t"
        connection.execute(f"CREATE TABLE first AS SELECT {columns}")
        connection.execute(f"CREATE TABLE second AS SELECT {columns}")
    readings = FirstReadings()
    broken = _Failing(duckdb.ConversionException("no"))
    for table, is_broken in (("first", False), ("second", True)):
        settings = DuckdbSource(path=str(path), table=table)
        with connected(settings) as opened:
            rows = SchemaRows(small_schema(), opened.tables)
            rows.define_functions(opened.connection)
            source = replace(opened, connection=broken) if is_broken else opened
            found = problem_of(readings, source, rows, settings)
        assert isinstance(found, SourceProblem) == is_broken, "the second one is read, too"


def test_a_csv_file_that_cannot_be_opened_for_a_moment_has_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # DuckDB names no error of the disk in what it says of a stream of Arrow batches.
    sources = DataSources({"census": write_csv(tmp_path / "t.csv", PLAIN)})

    def fails(_: CsvRecords) -> Iterator[bytes]:
        raise OSError(errno.EMFILE, "Too many open files")
        yield b""

    with monkeypatch.context() as patched:
        patched.setattr(CsvRecords, "_blocks", fails)
        with pytest.raises(SourceAway):
            sources.statistics(asked("count", small_schema(), "csv"), key=b"k")
    assert answered(sources, "count", "csv") is None


class _Failing:
    """A connection whose statements fail."""

    def __init__(self, error: Exception) -> None:
        self._error = error
        self.statements = 0

    def execute(self, statement: str) -> Any:
        self.statements += 1
        raise self._error


def problem_of(
    readings: FirstReadings,
    source: OpenedSource,
    rows: SchemaRows,
    settings: SourceSettings = SETTINGS,
) -> Exception | None:
    try:
        readings.require(settings, source, rows)
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize(
    ("error", "is_remembered"),
    [
        (duckdb.OutOfMemoryException("no"), False),
        (duckdb.IOException("no"), False),
        (duckdb.InterruptException("no"), False),
        (MemoryError(), False),
        (duckdb.InvalidInputException("no"), True),
        (duckdb.ConversionException("no"), True),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_reading_is_remembered_unless_the_environment_failed(
    error: Exception, is_remembered: bool, tmp_path: Path
) -> None:
    readings = FirstReadings()
    failing = _Failing(error)
    with connected(write_csv(tmp_path / "t.csv", PLAIN)) as opened:
        rows = SchemaRows(small_schema(), opened.tables)
        broken: OpenedSource = replace(opened, connection=failing)
        for _ in range(2):
            found = problem_of(readings, broken, rows)
            assert isinstance(found, SourceProblem if is_remembered else type(error))
    assert failing.statements == (1 if is_remembered else 2)


def test_a_readable_version_is_read_in_full_once(tmp_path: Path) -> None:
    readings = FirstReadings()
    with connected(write_csv(tmp_path / "t.csv", PLAIN)) as opened:
        rows = SchemaRows(small_schema(), opened.tables)
        rows.define_functions(opened.connection)
        readings.require(SETTINGS, opened, rows)
        broken = replace(opened, connection=_Failing(duckdb.ConversionException("no")))
        readings.require(SETTINGS, broken, rows)
        # Another schema reads other cells.
        other = SchemaRows(small_schema(rows=1), opened.tables)
        with pytest.raises(SourceProblem):
            readings.require(SETTINGS, broken, other)


# -- what a question does of rows of one unit alone


class _Recording:
    """A connection that notes its statements."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.statements = list[str]()

    def execute(self, statement: str) -> Any:
        self.statements.append(statement)
        return self._connection.execute(statement)

    def functions(self) -> set[str]:
        """Return the names of the functions in all statements."""
        return set(re.findall(r"(\w+)\(", " ".join(self.statements)))


def test_a_reading_takes_each_costly_step_that_a_question_takes_of_a_crowded_unit(
    tmp_path: Path,
) -> None:
    # One person's rows could take a question past its time otherwise, and no other one.
    crowded = {name: (type_, [cells[0]] * 3) for name, (type_, cells) in PLAIN.items()}
    with connected(write_csv(tmp_path / "t.csv", crowded)) as opened:
        rows = SchemaRows(small_schema(rows=2), opened.tables)
        rows.define_functions(opened.connection)
        reading, asking = _Recording(opened.connection), _Recording(opened.connection)
        FirstReadings().require(SETTINGS, replace(opened, connection=reading), rows)
        checked = asked("count where t = true", rows.schema, "csv")
        (found,) = statistics(asking, rows, checked, key=b"k", at_once=9)
    assert found == (2,)
    assert {"sha256", "unhex", "encode"} <= asking.functions()
    cheap = {"arg_min", "count", "max", "row_number", "relevant", "crowded", "OVER", "USING"}
    assert asking.functions() - reading.functions() <= cheap | {"FROM", "unnest"}


def test_rows_of_crowded_units_fit_into_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    duckdb.sql(
        "COPY (SELECT (range % 6)::VARCHAR AS unit, range % 3 AS x, true AS t FROM range(150_025) "
        f"UNION ALL SELECT 'other', 1, false) TO '{path}'"
    )
    settings = ParquetSource(path=str(path), memory_mb=32)  # less than a file may name
    sources = DataSources({"census": settings})
    found = list[object]()
    for text in ("count where t = false", "count where t = true"):
        checked = asked(text, small_schema(rows=25_000), "parquet")
        try:
            found += sources.statistics(checked, key=b"k")
        except SourceUnreadable as error:
            found.append(str(error))
    assert found == [(1,), (150_000,)]


# -- the engine


def test_no_optimizer_but_those_known_is_on(tmp_path: Path) -> None:
    with connected(write_csv(tmp_path / "t.csv", PLAIN)) as opened:
        every = {name for (name,) in run(opened.connection, "FROM duckdb_optimizers()")}
        ((disabled,),) = run(opened.connection, "SELECT current_setting('disabled_optimizers')")
    off = {name.strip() for name in disabled.split(",")}
    # A new version of DuckDB has others: none of them is on until somebody has looked at it.
    assert (
        every - off
        == OPTIMIZERS
        == {
            *("expression_rewriter", "in_clause", "unused_columns", "column_lifetime"),
            *("common_subexpressions", "common_aggregate", "aggregate_reuse", "duplicate_groups"),
        }
    )
    assert {"filter_pushdown", "statistics_propagation", "join_filter_pushdown"} <= off


def test_more_than_the_memory_goes_to_the_disk(tmp_path: Path) -> None:
    settings = write_csv(tmp_path / "t.csv", PLAIN)
    # Less than a file may name: a test of 128 MB takes four times as long.
    settings = CsvSource(path=settings.path, memory_mb=32)  # type: ignore[union-attr]
    with connected(settings) as opened:
        text = "repeat(sha256(range::VARCHAR), 100)"
        try:
            run(opened.connection, f"CREATE TEMP TABLE t AS SELECT {text} AS x FROM range(6_000)")
            found = run(opened.connection, "SELECT sum(strlen(x)) FROM t")
        except duckdb.Error:
            found = []
        assert found == [(38_400_000,)]


@pytest.mark.parametrize("name", ["drawn", "computed"])
def test_what_is_computed_is_computed_once_before_any_question(name: str, tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE plain AS SELECT range AS x FROM range(50)")
        connection.execute("CREATE VIEW drawn AS SELECT x, random() AS y FROM plain")
        connection.execute("CREATE TABLE computed (x INTEGER, y INTEGER AS (100 // x))")
    with connected(DuckdbSource(path=str(path), table=name), {"y", "unit"}) as opened:
        assert opened.version is None
        (table,) = opened.tables
        assert set(table.columns) == {"y"}
        statement = f"SELECT sum({table.columns['y'].reference}) FROM {table.sql}"
        assert run(opened.connection, statement) == run(opened.connection, statement)
    with connected(DuckdbSource(path=str(path), table="plain")) as opened:
        assert opened.version is not None
