"""Sources of each kind: what they hold, what is locked away, and the words of every failure."""

from __future__ import annotations

import contextlib
import logging
import random
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import duckdb
import msgspec
import numpy as np
import pyarrow as pa
import pytest

from accountant.questions import Schema, check_schema, evaluate
from accountant.questions.schema import (
    BooleanColumn,
    CategoryColumn,
    NumberColumn,
    SourceKind,
    UnitColumn,
)
from streams.sources import DataSources, SourceAway, SourceUnreadable
from streams.sources.database import (
    Interruption,
    SourceProblem,
    cause_of,
    connected,
    is_of_the_environment,
    run,
)
from streams.sources.source_settings import (
    CsvSource,
    DuckdbSource,
    ParquetSource,
    PostgresqlSource,
    SourceSettings,
)
from tests.accountant.questions.schemas import CENSUS, SOURCE, small_schema
from tests.streams.sources.source_files import (
    Columns,
    asked,
    assert_equal_to_the_reference,
    statistics_of_file,
    with_source,
    write_csv,
    write_duckdb,
    write_parquet,
)

SECRET = "4111-secret"


def of_rows(rows: Sequence[Sequence[object]]) -> Columns:
    """Return a table of `small_schema`: unit, x, c and t."""
    unit, x, c, t = zip(*rows, strict=True) if rows else ([], [], [], [])
    return {
        "unit": (pa.string(), unit),
        "x": (pa.float64(), x),
        "c": (pa.string(), c),
        "t": (pa.bool_(), t),
    }


def reference(columns: Columns) -> list[dict[str, object]]:
    cells = [each for _, each in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*cells, strict=True)]


def test_a_unit_with_100_000_rows_counts_as_its_bound(tmp_path: Path) -> None:
    rows = [("crowd", i % 7 - 3, "ab"[i % 2], i % 3 == 0) for i in range(100_000)]
    rows += [("ana", 1, "a", True), ("ben", 2, "b", None), ("ben", 2, "b", None)]
    columns = of_rows(rows)
    checked = asked("sum(x) by c", small_schema(rows=2), "parquet")
    write_parquet(tmp_path / "t.parquet", columns)
    few = of_rows(rows[90_000:])  # the reference takes seconds for all
    found = statistics_of_file(write_parquet(tmp_path / "few.parquet", few), checked, key=b"k")
    assert found == evaluate(checked, reference(few), key=b"k")
    count = asked("count", small_schema(rows=2), "parquet")
    found = statistics_of_file(ParquetSource(path=str(tmp_path / "t.parquet")), count, key=b"k")
    assert found == ((5,),)


@pytest.mark.parametrize("text", ["count by c", "sum(x) by c, t", "histogram(c)", "top(c, 1)"])
def test_a_unit_spread_over_groups_counts_as_its_bound(text: str, tmp_path: Path) -> None:
    # No group has more than one of its rows.
    rows = [("ana", 3, c, t) for c in "ab" for t in (True, False)]
    checked = asked(text, small_schema(rows=1), "parquet")
    settings = write_parquet(tmp_path / "t.parquet", of_rows(rows[:: 1 if "t" in text[3:] else 2]))
    (found,) = statistics_of_file(settings, checked, key=b"k")
    assert sorted(found)[-2:] == [0, 3 if "sum" in text else 1]


@pytest.mark.parametrize("text", ["sum(x)", "variance(x) by c", "median(x) by t", "top(c, 1)"])
def test_the_order_of_rows_changes_nothing(text: str, tmp_path: Path) -> None:
    draw = random.Random(7)
    rows = [
        (
            draw.choice("uvw"),
            draw.choice([-2, 0, 1.5, 3, None]),
            draw.choice("abc"),
            draw.choice([True, None]),
        )
        for _ in range(300)
    ]
    checked = asked(text, small_schema(rows=3), "parquet")
    found = list[object]()
    for i in range(3):
        draw.shuffle(rows)
        settings = write_parquet(tmp_path / f"{i}.parquet", of_rows(rows))
        found.append(statistics_of_file(settings, checked, key=b"key"))
    assert found[0] == found[1] == found[2]
    assert found[0] == evaluate(checked, reference(of_rows(rows)), key=b"key")


@pytest.mark.parametrize("text", ["count", "sum(x)", "median(x) by c", "top(c, 1)", "variance(x)"])
def test_tables_without_rows_or_columns_are_empty_or_missing(text: str, tmp_path: Path) -> None:
    assert_equal_to_the_reference(text, small_schema(), of_rows([]), tmp_path)
    bare: Columns = {"unit": (pa.string(), ["u", "v"]), "else": (pa.string(), ["x", "y"])}
    assert_equal_to_the_reference(text, small_schema(), bare, tmp_path)
    no_unit: Columns = {"x": (pa.int64(), [1, 2])}
    assert_equal_to_the_reference(text, small_schema(), no_unit, tmp_path)


def test_a_csv_file_without_a_byte_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_bytes(b"")
    settings = CsvSource(path=str(tmp_path / "empty.csv"))
    checked = asked("count by c", small_schema(), "csv")
    assert statistics_of_file(settings, checked, key=b"") == ((0, 0),)


def test_a_csv_line_affects_no_other_line(tmp_path: Path) -> None:
    lines = [
        b"\xef\xbb\xbfx;unit;c;t",
        b'"1;z;a;yes',
        *(b"1;u;a;TRUE", b"2;v", b"3;w;b;0;more;cells", b"\xff;u;a;1", b"", b"0;007;'a';True"),
        *(b'"1";7;"a";false', b"x" * 3_000_000 + b";u;a;1", b"1;z;a;yes"),
    ]
    (tmp_path / "t.csv").write_bytes(b"\r\n".join(lines) + b"\r\n")
    settings = CsvSource(path=str(tmp_path / "t.csv"), delimiter=";")
    schema = small_schema(rows=1)
    found = {
        text: statistics_of_file(settings, asked(text, schema, "csv"), key=b"")
        for text in ("count", "count by t", "histogram(c)", "sum(x)")
    }
    assert found["count"] == ((6,),)
    assert found["count by t"] == ((4, 2),)
    assert found["histogram(c)"] == ((3, 1),)
    assert found["sum(x)"] == ((8,),)


def test_a_pattern_reads_each_file_with_its_own_columns(tmp_path: Path) -> None:
    write_parquet(tmp_path / "p1.parquet", {"x": (pa.int8(), [1, 2]), "unit": (pa.int32(), [7, 7])})
    write_parquet(
        tmp_path / "p2.parquet", {"unit": (pa.string(), ["7", "8"]), "x": (pa.string(), ["3", "?"])}
    )
    settings = ParquetSource(path=str(tmp_path / "p*.parquet"))
    checked = asked("sum(x)", small_schema(rows=3), "parquet")
    rows = [{"x": x, "unit": unit} for x, unit in ((1, 7), (2, 7), ("3", "7"), ("?", "8"))]
    assert statistics_of_file(settings, checked, key=b"") == evaluate(checked, rows, key=b"")
    narrow = asked("sum(x)", small_schema(rows=1), "parquet")
    assert statistics_of_file(settings, narrow, key=b"") == evaluate(narrow, rows, key=b"")


WIDE = check_schema(
    Schema(
        source=SOURCE,
        columns=(
            NumberColumn(name="n", lower="-999999999999999", upper="999999999999999", places=12),
            CategoryColumn(name="c", categories=("Ana", "ana", "5", "12345678901234567890")),
            BooleanColumn(name="b"),
        ),
        unit=UnitColumn(column="unit", rows=1),
        neighbours="replace",
    )
)
READERS = {
    "n": ["sum(n)", "variance(n)"],
    "c": ["histogram(c)", "count where c = 'ana'"],
    "b": ["count by b"],
}
"""Questions that read a column; each question reads the unit."""
TYPES = [
    ("HUGEINT", ["170141183460469231731687303715884105727", "5", "-1", "12345678901234567890"]),
    ("UHUGEINT", ["340282366920938463463374607431768211455", "5", "0", "12345678901234567890"]),
    ("UBIGINT", ["18446744073709551615", "5", "1", "0"]),
    ("BIGNUM", [f"'{sign}{'7' * n}'" for sign in ("", "-") for n in (1, 36, 38, 99, 101)] + ["1"]),
    ("DECIMAL(38, 0)", ["99999999999999999999999999999999999999", "5", "0", "1"]),
    ("DECIMAL(20, 15)", ["12345.000000000000500", "-12345.000000000000500", "1", "0"]),
    ("DOUBLE", ["0.1", "1e15", "5", "-0.0"]),
    ("FLOAT", ["0.1", "1e30", "5", "1"]),
    ("VARCHAR COLLATE NOCASE", ["'Ana'", "'ana'", "'ANA'", "'true'", "'TRUE'"]),
    ("UUID", ["'00000000-0000-0000-0000-000000000005'"]),
    ("ENUM('Ana', '5', '1e-3')", ["'Ana'", "'5'", "'1e-3'"]),
]


@pytest.mark.parametrize(("type_", "literals"), TYPES, ids=lambda each: str(each)[:9])
@pytest.mark.parametrize("name", ["n", "c", "b", "unit"])
def test_types_of_a_duckdb_table_are_read_as_the_how_to_says(
    type_: str, literals: list[str], name: str, tmp_path: Path
) -> None:
    path = tmp_path / "types.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE t (unit INTEGER, n INTEGER, c VARCHAR, b BOOLEAN)")
        connection.execute(f"ALTER TABLE t ALTER {name} TYPE {type_}")
        rest = {"unit": "7", "n": "1", "c": "'ana'", "b": "true"}
        for i, literal in enumerate([*literals, "NULL", *literals]):
            row = {**rest, "unit": str(i), name: literal}
            connection.execute(f"INSERT INTO t VALUES ({', '.join(row.values())})")
        found = connection.execute("SELECT * FROM t").fetchall()
    is_whole = type_ == "DECIMAL(38, 0)"
    rows = [
        {
            column: str(cell)
            if type_ == "UUID" and column == name and cell is not None
            else int(cell)
            if (is_whole and isinstance(cell, Decimal))
            or (type_ == "BIGNUM" and column == name and cell is not None)
            else cell
            for column, cell in zip(("unit", "n", "c", "b"), row, strict=True)
        }
        for row in found
    ]
    settings = DuckdbSource(path=str(path), table="main.t")
    for text in ("count", *READERS.get(name, [])):
        checked = asked(text, WIDE, "duckdb")
        assert statistics_of_file(settings, checked, key=b"") == evaluate(checked, rows, key=b"")


def test_floats_that_merge_numbers_name_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    types = ((pa.float16(), 2**11), (pa.float32(), 2**24), (pa.float64(), 2**53))
    for type_, merged in types:
        for first, counted in ((merged - 1000, 1000), (merged, 0), (-merged - 2000, 0)):
            ids = np.arange(first, first + 1000).astype(type_.to_pandas_dtype())
            settings = write_parquet(path, {"unit": (type_, ids)})
            checked = asked("count", small_schema(rows=1), "parquet")
            assert statistics_of_file(settings, checked, key=b"") == ((counted,),)


def test_sums_beyond_64_bits_and_of_large_squares_are_exact(tmp_path: Path) -> None:
    numbers = [999999999999999, -999999999999999, 10**15, 3, None] * 40
    columns: Columns = {"n": (pa.int64(), numbers), "unit": (pa.int64(), range(200))}
    assert_equal_to_the_reference("variance(n)", WIDE, columns, tmp_path)
    assert_equal_to_the_reference("sum(n) where n > 0", WIDE, columns, tmp_path)


def test_doubles_at_the_middle_of_two_values_are_rounded_by_their_exact_value(
    tmp_path: Path,
) -> None:
    schema = check_schema(
        Schema(
            source=SOURCE,
            columns=(
                NumberColumn(name="x", lower="-9", upper="9", places=2),
                NumberColumn(name="y", lower="-9", upper="9"),
            ),
            neighbours="replace",
        )
    )
    # 1.005 is below the middle as a double, 0.125 is the middle; 0.49999999999999994 + 0.5 is 1.0.
    numbers = [1.005, -1.005, 0.125, -0.125, 2.675, 8.995, -0.005, 0.49999999999999994, -0.5, 2.5]
    for number in numbers:
        columns: Columns = {name: (pa.float64(), [number]) for name in "xy"}
        for text in ("sum(x)", "sum(y)"):
            assert_equal_to_the_reference(text, schema, columns, tmp_path)


def test_texts_of_a_question_are_never_sql(tmp_path: Path) -> None:
    nasty = ("'; DROP TABLE t; --", "a' OR 'b' = 'b", '" || "', "$$", "?", "{}", "\\'")
    schema = check_schema(
        Schema(
            source=SOURCE,
            columns=(CategoryColumn(name="c", categories=nasty),),
            neighbours="replace",
        )
    )
    columns: Columns = {"c": (pa.string(), [*nasty, "b", "'"])}
    for text in nasty:
        quoted = text.replace("'", "''")
        for question in (
            f"count where c = '{quoted}'",
            f"histogram(c) where c not in ('{quoted}')",
        ):
            assert_equal_to_the_reference(question, schema, columns, tmp_path)


# -- what is locked away


@pytest.fixture(params=["parquet", "csv", "duckdb"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> SourceSettings:
    writers = {"parquet": write_parquet, "csv": write_csv, "duckdb": write_duckdb}
    return writers[request.param](tmp_path / f"t.{request.param}", of_rows([("u", 1, "a", True)]))


def test_a_connection_reads_its_files_alone_and_writes_none(
    source: SourceSettings, tmp_path: Path
) -> None:
    (tmp_path / "other.csv").write_text("a\n1\n")
    other = tmp_path / "other.csv"
    refused = [
        f"SELECT * FROM read_csv('{other}')",
        f"SELECT * FROM read_text('{other}')",
        f"COPY (SELECT 1) TO '{tmp_path / 'out.csv'}'",
        f"ATTACH '{tmp_path / 'new.duckdb'}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET memory_limit = '100GB'",
        "SELECT * FROM 'https://127.0.0.1:1/x.parquet'",
        "CREATE TABLE source.t (a INTEGER)",
    ]
    columns = pa.table({"a": [1]})
    with connected(source) as opened:
        connection = opened.connection
        for statement in [*refused, "SELECT * FROM columns"]:
            with pytest.raises(duckdb.Error):
                run(connection, statement)
            run(connection, "ROLLBACK")
            run(connection, "BEGIN TRANSACTION")
    assert columns is not None
    assert {path.name for path in tmp_path.iterdir()} <= {other.name, Path(source.path).name}  # type: ignore[union-attr]


def test_memory_threads_and_disk_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_parquet(path, {"unit": (pa.int64(), range(1000))})
    settings = ParquetSource(path=str(path), threads=1, memory_mb=200, spill_mb=1)
    names = ("threads", "memory_limit", "max_temp_directory_size")
    with connected(settings) as opened:
        asked_for = ", ".join(f"current_setting('{name}')" for name in names)
        ((threads, memory, disk),) = run(opened.connection, f"SELECT {asked_for}")
        assert threads == 1
        assert memory.startswith("190.7")  # MiB
        assert disk == "976.5 KiB"
    # With less memory than a source may have: the test would take longer.
    bounds = {"memory_limit": "8MB", "max_temp_directory_size": "1MB"}
    with (
        duckdb.connect(config={**bounds, "temp_directory": str(tmp_path / "spill")}) as small,
        pytest.raises(duckdb.OutOfMemoryException) as full,
    ):
        run(small, "CREATE TEMP TABLE t AS SELECT random() FROM range(3000000)")
    assert cause_of(full.value) == "it needs more of the disk than its spill_mb allows"
    assert not is_of_the_environment(full.value), "another try would need as much"


def test_a_source_whose_rows_may_not_fit_on_the_disk_answers_no_question(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # Which rows a question writes to the disk depends on its filter, and whether it fails must not.
    columns = of_rows([(f"person {i % 999}", 1, "north", True) for i in range(2_000)])
    found = write_parquet(tmp_path / "t.parquet", columns)
    schema, texts = small_schema(), ("count", "count where t = false")
    for spill_mb, answers in ((1, 0), (2, 2)):
        caplog.clear()
        sources = DataSources({"census": msgspec.structs.replace(found, spill_mb=spill_mb)})
        answered = 0
        for text in texts:
            with contextlib.suppress(SourceUnreadable):
                sources.statistics(asked(text, schema, "parquet"), key=b"")
                answered += 1
        assert answered == answers
        why = "a question may write 2 MB to the disk, more than its spill_mb (1) allows"
        assert caplog.text.count(why) == len(texts) - answers


# -- failures


def failing(tmp_path: Path) -> dict[str, tuple[SourceKind, SourceSettings]]:
    path = tmp_path / "t.parquet"
    write_parquet(path, of_rows([("u", 1, SECRET, True)]))
    (tmp_path / "broken.parquet").write_text(f"PAR1 {SECRET} PAR1")
    (tmp_path / "broken.duckdb").write_text(SECRET)
    (tmp_path / "connection").touch(mode=0o600)
    (tmp_path / "connection").write_text(f"host=127.0.0.1 port=1 user=reader password={SECRET}")
    write_duckdb(tmp_path / "t.duckdb", of_rows([]))
    invalid = pa.array([SECRET.encode() + b"\xff"])
    text = pa.Array.from_buffers(pa.string(), 1, invalid.buffers())
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"unit": text}), tmp_path / "no_utf8.parquet")
    return {
        "absent": ("parquet", ParquetSource(path=str(tmp_path / "absent.parquet"))),
        "directory": ("parquet", ParquetSource(path=str(tmp_path))),
        "broken": ("parquet", ParquetSource(path=str(tmp_path / "broken.parquet"))),
        "no_utf8": ("parquet", ParquetSource(path=str(tmp_path / "no_utf8.parquet"))),
        "other kind": ("csv", ParquetSource(path=str(path))),
        "no csv": ("csv", CsvSource(path=str(tmp_path))),
        "no database": ("duckdb", DuckdbSource(path=str(tmp_path / "broken.duckdb"), table="t")),
        "no table": ("duckdb", DuckdbSource(path=str(tmp_path / "t.duckdb"), table="absent")),
        "no server": (
            "postgresql",
            PostgresqlSource(connection_file=str(tmp_path / "connection"), table="t"),
        ),
    }


AWAY = {"absent", "directory", "other kind", "no csv", "no database", "no server", "not named"}
"""What may pass, such as a file that is replaced: a question waits for it."""


@pytest.mark.parametrize(
    "name",
    [
        *("absent", "directory", "broken", "no_utf8", "other kind", "no csv", "no database"),
        *("no table", "no server", "not named"),
    ],
)
def test_every_failure_has_the_same_words_and_the_log_has_no_cell(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kind, settings = failing(tmp_path).get(name, ("parquet", ParquetSource(path="x")))
    sources = DataSources({} if name == "not named" else {"census": settings})
    with caplog.at_level(logging.WARNING), pytest.raises(SourceUnreadable) as raised:
        sources.statistics(asked("count", small_schema(), kind), key=b"")
    assert str(raised.value) == "the source census cannot be read"
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None
    is_away = isinstance(raised.value, SourceAway)
    assert is_away == (name in AWAY)
    assert ("source_away" if is_away else "source_unreadable") in caplog.text
    assert SECRET not in caplog.text


def test_a_question_that_takes_too_long_is_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "slow.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute(
            "CREATE VIEW slow AS SELECT a.range AS unit FROM range(10000000) a, range(10000000) b"
        )
    settings = DuckdbSource(path=str(path), table="slow", seconds=1)
    with pytest.raises(SourceUnreadable):
        statistics_of_file(settings, asked("count", small_schema(), "duckdb"), key=b"")
    assert "reading it took too long" in caplog.text
    assert "Interrupt" not in caplog.text


def test_a_file_that_changes_while_it_is_read_is_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    settings = write_csv(path, of_rows([("u", 1, "a", True)]))
    with pytest.raises(SourceProblem, match="changed"), connected(settings):
        path.write_text(path.read_text() + "v,1,a,True\n")


def test_an_interruption_that_comes_too_late_is_none(tmp_path: Path) -> None:
    settings = write_csv(tmp_path / "t.csv", of_rows([("u", 1, "a", True)]))
    given, ended = list[Interruption](), list[str]()
    with connected(settings, interruptible=given.append):
        given[0].add(lambda: ended.append("another"))
    given[0].interrupt()
    assert ended == ["another"]


def test_a_view_in_a_file_reads_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("unit\n1\n")
    path = tmp_path / "view.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute(f"CREATE VIEW v AS SELECT * FROM read_csv('{tmp_path / 'other.csv'}')")
    settings = DuckdbSource(path=str(path), table="v")
    with pytest.raises(SourceUnreadable):
        statistics_of_file(settings, asked("count", small_schema(), "duckdb"), key=b"")


def test_a_schema_of_another_name_finds_its_own_source(tmp_path: Path) -> None:
    one = write_parquet(tmp_path / "1.parquet", of_rows([("u", 1, "a", True)]))
    sources = DataSources({"census": one, "absent": ParquetSource(path="absent")})
    checked = asked("count", CENSUS, "parquet")
    assert with_source(CENSUS, "parquet").source.name == "census"
    assert sources.statistics(checked, key=b"") == ((Fraction(0),),)
    assert set(sources) == {"census", "absent"}
    assert len(sources) == 2
