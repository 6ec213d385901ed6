"""A column is the one that the file itself names, whatever the engine makes of its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from accountant.questions import Schema, check_schema
from accountant.questions.schema import NumberColumn, SourceKind, UnitColumn, name_text
from streams.sources import SourceUnreadable
from streams.sources.database import connected
from streams.sources.quoted import table_names
from streams.sources.source_settings import (
    CsvSource,
    DuckdbSource,
    ParquetSource,
    SourceSettings,
)
from tests.accountant.questions.schemas import SOURCE
from tests.every_case import check_each, check_rows
from tests.nightly import NIGHTLY, rounds
from tests.streams.sources.source_files import asked, statistics_of_file

Named = tuple[str, int]


def write(kind: SourceKind, directory: Path, columns: list[Named]) -> SourceSettings:
    """Write one row, whose columns have these names and numbers."""
    path = directory / f"named.{kind}"
    names, numbers = [name for name, _ in columns], [number for _, number in columns]
    if kind == "parquet":
        arrays = [pa.array([number]) for number in numbers]
        pq.write_table(pa.Table.from_arrays(arrays, names=names), path)
        return ParquetSource(path=str(path))
    if kind == "csv":
        path.write_text(f"{','.join(names)}\n{','.join(map(str, numbers))}\n")
        return CsvSource(path=str(path))
    path.unlink(missing_ok=True)
    with duckdb.connect(path) as connection:
        listed = ", ".join(f'{number} AS "{name}"' for name, number in columns)
        connection.execute(f"CREATE VIEW named AS SELECT {listed}")
    return DuckdbSource(path=str(path), table="named")


def read(settings: SourceSettings, kind: SourceKind, name: str, unit: str = "id") -> Any:
    """Return the sum of a column, None where the source cannot be read."""
    schema = check_schema(
        Schema(
            source=SOURCE,
            columns=(NumberColumn(name=name, lower="0", upper="99"),),
            unit=UnitColumn(column=unit, rows=1),
            neighbours="replace",
        )
    )
    try:
        ((found,),) = statistics_of_file(
            settings, asked(f"sum({name_text(name)})", schema, kind), key=b"k"
        )
    except SourceUnreadable:
        return None
    return int(found)


KINDS: list[SourceKind] = ["parquet", "csv", "duckdb"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_like_a_renamed_twin_is_its_own_column(kind: SourceKind, tmp_path: Path) -> None:
    settings = write(kind, tmp_path, [("id", 1), ("uid", 2), ("uid", 3), ("uid_1", 4)])
    assert read(settings, kind, "uid_1") == 4
    assert read(settings, kind, "uid") is None
    assert read(settings, kind, "uid_1", unit="uid") is None
    for name in ("uid_1_1", "uid_2")[: rounds(1, 2)]:  # that is no name of the file
        assert read(settings, kind, name) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_names_that_differ_in_case_are_distinct_or_unreadable(
    kind: SourceKind, tmp_path: Path
) -> None:
    settings = write(kind, tmp_path, [("id", 1), ("age", 2), ("AGE", 3), ("AGE_1", 4)])
    assert read(settings, kind, "AGE_1") == 4
    of_a_csv_file = {"age": 2, "AGE": 3}
    for name, number in of_a_csv_file.items():
        assert read(settings, kind, name) == (number if kind == "csv" else None)
    assert read(settings, kind, "Age") == 0


@pytest.mark.parametrize("kind", ["parquet", "duckdb"])
def test_other_letters_than_ascii_keep_their_case(kind: SourceKind, tmp_path: Path) -> None:
    settings = write(kind, tmp_path, [("id", 1), ("é", 2), ("É", 3)])
    with connected(settings, {"é", "É"}) as opened:
        assert set(opened.tables[0].columns) >= {"é", "É"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_of_any_characters_is_its_own_column(kind: SourceKind, tmp_path: Path) -> None:
    names = ["year of birth", " age", "age ", "where", "x'; --", "t.x0", "Größe", "年齢"]
    settings = write(
        kind, tmp_path, [("id of row", 1), *((name, i) for i, name in enumerate(names))]
    )
    for i, name in enumerate(names):
        if name in {" age", "x'; --", "年齢"} or NIGHTLY:
            assert read(settings, kind, name, unit="id of row") == i, name


def test_columns_within_a_column_are_no_columns(tmp_path: Path) -> None:
    path = tmp_path / "nested.parquet"
    array = {
        "inner": pa.array([{"uid": 9, "deep": [{"id": 1}]}]),
        "id": pa.array([1]),
        "several": pa.array([[1, 2]]),
        "pairs": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        "uid": pa.array([5]),
    }
    pq.write_table(pa.table(array), path)
    assert read(ParquetSource(path=str(path)), "parquet", "uid") == 5


def test_each_file_of_a_pattern_has_its_own_names(tmp_path: Path) -> None:
    write("parquet", tmp_path, [("id", 1), ("uid", 2)])
    (tmp_path / "named.parquet").rename(tmp_path / "a.parquet")
    write("parquet", tmp_path, [("uid", 7), ("uid", 8), ("id", 2)])
    settings = ParquetSource(path=str(tmp_path / "*.parquet"))
    assert read(settings, "parquet", "uid") is None
    assert read(settings, "parquet", "uid_1") == 0


VIEWS = {
    "listed": "VIEW v (id, uid, uid) AS SELECT 1, 2, 3",
    "partly listed": "VIEW v (id, uid) AS SELECT 1, 2, 3 AS uid",
    "joined": "VIEW v AS SELECT * FROM one JOIN two ON (one.uid != two.uid)",
    "quoted": 'VIEW "v" ("id", "uid", "uid") AS SELECT 1 AS "AS", 2, 3',
    "with": "VIEW v AS WITH q AS (SELECT 1 AS id) SELECT id, 2 AS uid, 3 AS UID FROM q",
}


def test_names_of_a_view_are_those_of_its_query(tmp_path: Path) -> None:
    path = tmp_path / "v.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE one AS SELECT 1 AS id, 2 AS uid")
        connection.execute("CREATE TABLE two AS SELECT 3 AS uid")
        for number, view in enumerate(VIEWS.values()):
            connection.execute(f"CREATE {view.replace('v', f'v{number}', 1)}")
        connection.execute('CREATE SCHEMA "an other"')
        connection.execute('CREATE TABLE "an other".t AS SELECT 1 AS id, 5 AS x')
        connection.execute('CREATE VIEW "an other"."v (a) AS b" AS SELECT * FROM "an other".t')

    def is_ambiguous(number: int) -> None:
        settings = DuckdbSource(path=str(path), table=f"v{number}")
        assert read(settings, "duckdb", "uid") is None
        assert read(settings, "duckdb", "uid_1") == 0

    check_each(is_ambiguous, range(len(VIEWS)))
    other = DuckdbSource(path=str(path), table="an other.v (a) AS b")
    assert read(other, "duckdb", "x") == 5


TWINS = 'SELECT 1 AS id, 2 AS age, 3 AS "AGE", 4 AS "AGE_1"'
WITHIN = {
    # Of each view: the columns that have their names for themselves.
    f"SELECT * FROM ({TWINS})": {"id"},
    f"WITH q AS ({TWINS}), r AS (FROM q) SELECT * FROM r": {"id"},
    f"SELECT * FROM ({TWINS} UNION ALL {TWINS})": {"id"},
    f'SELECT id, "AGE_1" FROM one JOIN ({TWINS}) USING (id)': {"id"},
    "SELECT * FROM twins": {"id"},
    'SELECT * FROM "an other".twins': {"id"},
    "SELECT * FROM of_a_macro()": {"id", "age"},
    'SELECT id, x, "AGE_1" FROM one, LATERAL (SELECT id AS x, 2 AS age, 3 AS AGE, 4 AS AGE_1)': {
        "id",
        "x",
    },
    f"SELECT * FROM ({TWINS}) AS t(a, b, c, a_1)": {"a", "b", "c", "a_1"},
    "SELECT id, n, 2 AS age, 3 AS age_1 FROM one, range(3) AS r(n)": {"id", "n", "age", "age_1"},
    "SELECT id, 5 AS age_1 FROM one WHERE EXISTS (FROM one AS o WHERE o.id = one.id)": {
        "id",
        "age_1",
    },
}


def test_a_name_of_a_query_within_a_view_is_no_other_columns(tmp_path: Path) -> None:
    path = tmp_path / "v.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE one AS SELECT 1 AS id")
        connection.execute('CREATE SCHEMA "an other"')
        connection.execute(f"CREATE VIEW base AS {TWINS}")
        connection.execute("CREATE VIEW twins AS FROM base")
        connection.execute(f'CREATE VIEW "an other".twins AS {TWINS}')
        connection.execute(f"CREATE MACRO of_a_macro() AS TABLE {TWINS}")
        for number, query in enumerate(WITHIN):
            connection.execute(f"CREATE VIEW v{number} AS {query}")

    def has(number: int, names: set[str]) -> None:
        with connected(DuckdbSource(path=str(path), table=f"v{number}"), None) as opened:
            assert set(opened.tables[0].columns) == names

    check_rows(has, enumerate(WITHIN.values()))
    # Nothing is read in the place of the column that the schema names.
    assert read(DuckdbSource(path=str(path), table="v0"), "duckdb", "AGE_1") is None


def test_a_name_with_a_dot_is_quoted(tmp_path: Path) -> None:
    path = tmp_path / "dots.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute('CREATE SCHEMA "a.b"')
        for place, number in (('"visits.2026"', 1), ('"a.b"."c""d.e"', 2)):
            connection.execute(f"CREATE TABLE {place} AS SELECT 1 AS id, {number} AS x")
    for table, number in (('"visits.2026"', 1), ('main."visits.2026"', 1), ('"a.b"."c""d.e"', 2)):
        assert read(DuckdbSource(path=str(path), table=table), "duckdb", "x") == number
    assert read(DuckdbSource(path=str(path), table="visits.2026"), "duckdb", "x") is None
    assert table_names("the rows") == ["the rows"]
    for wrong in ("", "a.b.c", '"a', 'a"b', "a."):
        with pytest.raises(ValueError, match="quote a name"):
            table_names(wrong)
