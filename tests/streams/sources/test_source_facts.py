"""Names and types of a source, and what of a schema does not match them."""

from __future__ import annotations

import gzip
from itertools import product
from pathlib import Path
from typing import get_args

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from accountant.questions import Schema
from accountant.questions.schema import (
    BooleanColumn,
    CategoryColumn,
    Column,
    NumberColumn,
    TimeColumn,
    UnitColumn,
)
from streams.sources.cells import identifier_sql
from streams.sources.database import connected, run
from streams.sources.schema_rows import SchemaRows
from streams.sources.source_facts import (
    ColumnFact,
    SchemaFinding,
    SourceFacts,
    check_schema,
    is_clean,
    read_facts,
)
from streams.sources.source_settings import CsvSource, DuckdbSource, ParquetSource, SourceSettings
from streams.sources.source_tables import SourceProblem
from streams.sources.type_readings import Use, reading_of
from tests.accountant.questions.schemas import SOURCE
from tests.streams.sources.source_files import Columns, write_parquet

UUID = "00000000-0000-0000-0000-000000000001"
LONG = "7" * 101
BIG = ("16777216", "9007199254740992")
CATEGORIES = (
    "0",
    "1",
    "-1",
    "7",
    "0.5",
    "7.25",
    "NaN",
    "a",
    "true",
    "2020-01-01",
    UUID,
    LONG,
    *BIG,
)
"""The texts of all cells below."""
CELLS = {
    **dict.fromkeys(
        ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"),
        ("1", "-1", "0"),
    ),
    **dict.fromkeys(
        ("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"),
        ("1", "0", "7"),
    ),
    "BIGNUM": ("1", "0", "7", f"'{LONG}'"),
    "FLOAT": ("1", "0", "0.5", "16777216", "'NaN'"),
    "DOUBLE": ("1", "0", "0.5", "9007199254740992", "'NaN'"),
    "DECIMAL(4,0)": ("1", "0", "7"),
    "DECIMAL(4,2)": ("1", "0", "7.25"),
    "VARCHAR": ("'1'", "'true'", "'a'", "'2020-01-01'"),
    "JSON": ("'1'", "'true'"),
    "ENUM('1', 'true', 'a', '2020-01-01')": ("'1'", "'true'", "'a'", "'2020-01-01'"),
    "UUID": (f"'{UUID}'",),
    "BOOLEAN": ("true", "false"),
    "DATE": ("'2020-01-01'", "'2019-12-31'"),
    **dict.fromkeys(
        ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMPTZ"),
        ("'2020-01-01'", "'2021-01-01'"),
    ),
    **dict.fromkeys(("TIME", "TIME_NS", "TIMETZ"), ("'10:00:00'",)),
    "INTERVAL": ("INTERVAL 1 DAY",),
    "BLOB": ("'a'", "'1'", "'true'"),
    "BIT": ("'1'", "'0'"),
    "STRUCT(a INTEGER)": ("{'a': 1}",),
    "INTEGER[]": ("[1]",),
    "INTEGER[1]": ("[1]",),
    "MAP(INTEGER, INTEGER)": ("MAP {1: 1}",),
    "UNION(a INTEGER)": ("union_value(a := 1)",),
    "VARIANT": ("1",),
    "GEOMETRY": ("'POINT (1 1)'",),
}
"""Of each type, cells that show what is read; of those of which some are missing, such a one."""
NOT_STORED = {"NULL", "TYPE", "TUPLE", "TIMESTAMPTZ_NS"}
"""Types that no table of this version of DuckDB may have, or that have no cell but NULL."""
USES: dict[Use, Column] = {
    "number": NumberColumn(name="x", lower="-10", upper="10"),
    "category": CategoryColumn(name="x", categories=CATEGORIES),
    "boolean": BooleanColumn(name="x"),
    "date": TimeColumn(name="x", first="2020-01-01", last="2020-12-31"),
}


def schema_of(*columns: Column, unit: str = "id") -> Schema:
    return Schema(
        source=SOURCE,
        columns=columns,
        unit=UnitColumn(column=unit, rows=1),
        neighbours="replace",
    )


def assert_read_as_the_table_says(settings: SourceSettings) -> None:
    """Compare the cells of all columns, none of them NULL, with the table of types."""
    facts = read_facts(settings).by_name()
    with connected(settings, set(facts)) as source:
        (table,) = source.tables
        rows = SchemaRows(schema_of(USES["number"]), [table])
        rows.define_functions(source.connection)
        for use, (name, cell) in product(get_args(Use), table.columns.items()):
            type_ = facts[name].type_text
            if use == "unit":
                value, read_from = identifier_sql(cell), table.sql
            else:
                column = msgspec.structs.replace(USES[use], name=name)
                rows = SchemaRows(schema_of(column), [table])
                value, read_from = rows.value(table, 0), rows.from_sql(table, [0])
            query = f"SELECT list(({value}) IS NULL) FROM {read_from}"
            ((are_missing,),) = run(source.connection, query)
            reading = reading_of(type_, use)
            if (name, use) != ("JSON", "date"):  # its texts have quotes: no date is among them
                assert set(are_missing) == EXPECTED[reading.missing], (type_, use)
            assert (reading.which == "") == (reading.missing == "none")


EXPECTED = {"none": {False}, "all": {True}, "some": {False, True}}


def test_the_table_of_types_says_how_cells_are_read(tmp_path: Path) -> None:
    most = max(map(len, CELLS.values()))
    with duckdb.connect(tmp_path / "types.duckdb") as connection:
        listed = ", ".join(f'"{type_}" {type_}' for type_ in CELLS)
        connection.execute(f"CREATE TABLE t ({listed})")
        for i in range(most):
            row = ", ".join(f"({cells[i % len(cells)]})::{t}" for t, cells in CELLS.items())
            connection.execute(f"INSERT INTO t SELECT {row}")
    assert_read_as_the_table_says(DuckdbSource(path=str(tmp_path / "types.duckdb"), table="t"))


def test_the_table_of_types_says_how_cells_of_csv_are_read(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x\n1\ntrue\na\n2020-01-01\n")
    settings = CsvSource(path=str(tmp_path / "t.csv"))
    assert read_facts(settings).columns == (ColumnFact(name="x", types=("text",)),)
    assert_read_as_the_table_says(settings)


def test_every_type_of_the_engine_is_tried() -> None:
    with duckdb.connect() as connection:
        known = {name for (name,) in run(connection, "SELECT logical_type FROM duckdb_types()")}
        tried = set()
        for type_ in CELLS:
            (name,) = connection.sql(f"SELECT NULL::{type_} AS x").types
            tried.add(str(name.id).upper())
    assert known - tried == NOT_STORED


def fact(name: str, *types: str, **more: bool) -> ColumnFact:
    return ColumnFact(name=name, types=types, **more)


AGE = NumberColumn(name="age", lower="0", upper="9")
HOME = CategoryColumn(name="home", categories=("a",))


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ([fact("id", "bigint"), fact("age", "integer"), fact("home", "varchar")], []),
        ([fact("id", "bigint"), fact("age", "bigint")], [("home", "absent", "")]),
        (
            [fact("Id", "bigint"), fact("age", "bigint"), fact("home", "varchar")],
            [("id", "absent", "Id")],
        ),
        (
            [fact("id", "varchar"), fact("age", "date"), fact("home", "blob")],
            [("age", "all_missing", ""), ("home", "all_missing", "")],
        ),
        (
            [fact("id", "double"), fact("age", "varchar"), fact("home", "decimal(4,1)")],
            [
                ("age", "some_missing", ""),
                ("home", "all_missing", ""),
                ("id", "inexact_unit", ""),
            ],
        ),
        (
            [fact("id", "bigint", is_partial=True), fact("age", is_repeated=True)],
            [("age", "repeated", ""), ("home", "absent", ""), ("id", "inexact_unit", "")],
        ),
        (
            [fact("id", "bigint", "null"), fact("age", "null"), fact("home", "date", "varchar")],
            [
                ("age", "all_missing", ""),
                ("home", "some_missing", ""),
                ("id", "inexact_unit", ""),
            ],
        ),
    ],
)
def test_what_does_not_match_is_found(
    facts: list[ColumnFact], expected: list[tuple[str, str, str]]
) -> None:
    found = check_schema(schema_of(AGE, HOME), SourceFacts(columns=tuple(facts)))
    assert [(each.column, each.kind, each.hint) for each in found] == expected
    assert is_clean(found) == all(kind == "some_missing" for _, kind, _ in expected)
    assert all(each.is_unit == (each.column == "id") for each in found)


def test_facts_of_several_files_show_what_differs(tmp_path: Path) -> None:
    files: dict[str, Columns] = {
        "a": {"id": (pa.int64(), [1]), "age": (pa.int64(), [1]), "home": (pa.string(), ["x"])},
        "b": {"age": (pa.float64(), [1]), "ID": (pa.int64(), [1]), "home": (pa.string(), ["x"])},
    }
    for name, columns in files.items():
        write_parquet(tmp_path / f"{name}.parquet", columns)
    twins = pa.table([pa.array([1])] * 3, names=["home", "HOME", "id"])
    pq.write_table(twins, tmp_path / "c.parquet")
    assert read_facts(ParquetSource(path=str(tmp_path / "*.parquet"))).columns == (
        fact("id", "bigint", is_partial=True),
        fact("age", "bigint", "double", is_partial=True),
        fact("home", "varchar", is_repeated=True),
        fact("ID", "bigint", is_partial=True),
        fact("HOME", is_repeated=True, is_partial=True),
    )


def test_a_column_without_a_value_in_parquet_has_the_type_null(tmp_path: Path) -> None:
    settings = write_parquet(tmp_path / "n.parquet", {"x": (pa.null(), [None])})
    assert read_facts(settings).columns == (fact("x", "null"),)


def test_a_view_is_described_and_not_computed(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "v.duckdb") as connection:
        connection.execute("CREATE VIEW v AS SELECT error('computed') AS bad, 1 // 0 AS id")
    settings = DuckdbSource(path=str(tmp_path / "v.duckdb"), table="v")
    assert [each.name for each in read_facts(settings).columns] == ["bad", "id"]


PARQUET = b"PAR1 is the magic of a file"
WRONG = {
    "empty": (b"", "it is empty"),
    "gzip": (gzip.compress(b"id,age\n"), "compressed (gzip)"),
    "utf-16": ("id,age\n1,2\n".encode("utf-16"), "in UTF-16. Write it in UTF-8"),
    "utf-16 without a mark": ("id,age\n1,2\n".encode("utf-16-le"), "UTF-16 or UTF-32"),
    "semicolon": (b"id;age\n1;2\n", 'no comma: did you mean "delimiter": ";"?'),
    "tab": (b"id\tage\n1\t2\n", 'did you mean "delimiter": "\\t"?'),
    "bar": (b"\xef\xbb\xbfid|age\n1|2\n", 'did you mean "delimiter": "|"?'),
    "parquet": (PARQUET, "no CSV file, but a Parquet file"),
    "no names": (b"\n1,2\n", "its first line names no columns"),
    "latin-1": ("id,höhe\n".encode("latin-1"), "its first line names no columns"),
    "carriage returns": (b"id,age\r1,2\r", "a carriage return alone"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_of_another_format_is_named_in_words(name: str, tmp_path: Path) -> None:
    content, words = WRONG[name]
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(SourceProblem) as found:
        read_facts(CsvSource(path=str(tmp_path / "t.csv")))
    assert words in str(found.value)
    (tmp_path / "a.csv").write_text("id,age\n1,2\n")
    with pytest.raises(SourceProblem, match=r"^t.csv: it"):
        read_facts(CsvSource(path=str(tmp_path / "*.csv")))


def test_one_quoted_name_is_no_wrong_delimiter(tmp_path: Path) -> None:
    for mark in (b"", b"\xef\xbb\xbf"):
        (tmp_path / "t.csv").write_bytes(mark + b'"id;age"\n1\n')
        facts = read_facts(CsvSource(path=str(tmp_path / "t.csv")))
        assert [each.name for each in facts.columns] == ["id;age"]


@pytest.mark.parametrize("content", [b"id,age\n1,2\n", PARQUET, b"PAR1" + bytes(40) + b"PAR1"])
def test_a_file_that_is_no_database_or_damaged_is_named_in_words(
    content: bytes, tmp_path: Path
) -> None:
    (tmp_path / "t").write_bytes(content)
    for settings in (
        ParquetSource(path=str(tmp_path / "t")),
        DuckdbSource(path=str(tmp_path / "t"), table="t"),
    ):
        with pytest.raises(SourceProblem) as found:
            read_facts(settings)
        words = (
            "it is no DuckDB file",
            "it is no Parquet file",
            "its names and types cannot",
        )
        assert str(found.value).startswith(words)
        assert found.value.__cause__ is None or isinstance(found.value.__cause__, SourceProblem)


def test_a_type_has_nothing_of_the_values_that_it_was_made_from(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "t.duckdb") as connection:
        connection.execute("CREATE TABLE t (x ENUM ('secret'), y STRUCT(secret INTEGER))")
    facts = read_facts(DuckdbSource(path=str(tmp_path / "t.duckdb"), table="t"))
    assert [each.types for each in facts.columns] == [("enum",), ("struct",)]


SAME_LOOK = {
    ("\u0430ge", "age"): " The schema has `\\u0430ge`, the source `age`.",
    ("age\u00a0", "age"): " The schema has `age\\xa0`, the source `age`.",
    (
        "gr\u00f6\u00dfe",
        "gro\u0308\u00dfe",
    ): " The schema has `gr\\xf6\\xdfe`, the source `gro\\u0308\\xdfe`.",
    ("Age", "age"): "",
    ("gr\u00f6se", "gr\u00f6\u00dfer"): "",
    ("gr\u00f6\u00dfe", ""): "",
}


def test_two_names_that_look_the_same_are_shown_with_escapes() -> None:
    for (column, hint), expected in SAME_LOOK.items():
        found = SchemaFinding(column=column, kind="absent", words="no such column", hint=hint)
        assert found.spellings == expected, (column, hint)
