"""Each type that DuckDB names is read as the how-to says, or missing; never an error."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Final

import duckdb
import pytest

from accountant.questions import Schema, check_schema
from accountant.questions.schema import (
    BooleanColumn,
    CategoryColumn,
    Column,
    DateColumn,
    NumberColumn,
    TimeColumn,
    UnitColumn,
)
from accountant.questions.schema_values import identifier, read_cell
from streams.sources.cells import schema_value
from streams.sources.database import connected, run
from streams.sources.first_reading import read_in_full
from streams.sources.schema_rows import UNIT_TEXT, SchemaRows
from streams.sources.source_settings import DuckdbSource, ParquetSource, SourceSettings
from tests.accountant.questions.schemas import SOURCE
from tests.nightly import NIGHTLY, rounds

UUID: Final = "00000000-0000-0000-0000-00000000000a"
INFINITY: Final = math.inf
Cells = Mapping[str, object]


def whole(bits: int, *, signed: bool = True) -> Cells:
    """Return the least and largest cells of a type, and some of each."""
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return {f"'{number}'": number for number in (least, 0, 1, 5, most - 1, most)}


NONE: Final[Cells] = {}
TYPES: Final[dict[str, Cells]] = {
    # Of each: SQL of cells, and what the how-to says that they are. The others are missing.
    **{f"{name}INT": whole(bits) for name, bits in (("TINY", 8), ("SMALL", 16), ("BIG", 64))},
    **{f"U{name}INT": whole(bits, signed=False) for name, bits in (("TINY", 8), ("SMALL", 16))},
    "INTEGER": whole(32),
    "UINTEGER": whole(32, signed=False),
    "UBIGINT": whole(64, signed=False),
    "HUGEINT": whole(128),
    "UHUGEINT": whole(128, signed=False),
    "BIGNUM": {
        f"'{sign}{'7' * n}'": int(f"{sign}{'7' * n}") for sign in ("", "-") for n in (1, 38, 99)
    }
    | {"'1'": 1, "'0'": 0, f"'{'7' * 101}'": int("7" * 101)},
    "FLOAT": {
        "5": 5,
        "0.1": 13421773 / 2**27,
        "'nan'": None,
        "'inf'": INFINITY,
        "16777215": 16777215,
    }
    | {"1e30": 1.0000000150474662e30, "1": 1, "-0.0": 0},
    "DOUBLE": {"5": 5, "0.1": 0.1, "'nan'": None, "'-inf'": -INFINITY, "16777217": 16777217}
    | {"1e300": 1e300, "1": 1, "-0.0": 0, "9007199254740991": 2**53 - 1},
    "DECIMAL(38, 0)": {"5": 5, "1": 1, "'" + "9" * 38 + "'": 10**38 - 1},
    "DECIMAL(4, 2)": {"5": Decimal(5), "1": Decimal(1), "0.55": Decimal("0.55")},
    "DECIMAL(38, 20)": {"-0.00000000000050000001": Decimal("-0.00000000000050000001")},
    "VARCHAR": {
        "'5'": "5",
        "'ana'": "ana",
        "'Ana'": "Ana",
        "'true'": "true",
        "''": "",
        "'5.5'": "5.5",
    },
    "JSON": {"'5'": "5", "'true'": "true", "'\"ana\"'": '"ana"', "'[5]'": "[5]"},
    "ENUM('ana', '5', 'false')": {"'ana'": "ana", "'5'": "5", "'false'": "false"},
    "UUID": {f"'{UUID.upper()}'": UUID},
    "BOOLEAN": {"true": True, "false": False},
    "DATE": {"'2026-01-05'": date(2026, 1, 5), "'0001-01-01'": date(1, 1, 1)}
    | dict.fromkeys(("'infinity'", "'-infinity'", "'5881580-07-10'", "'0001-12-31 (BC)'")),
    **{
        f"TIMESTAMP{name}": {
            "'2026-01-05 05:00:00'": datetime(2026, 1, 5, 5),  # noqa: DTZ001
            "'1969-12-31 23:59:59'": datetime(1969, 12, 31, 23, 59, 59),  # noqa: DTZ001
        }
        | dict.fromkeys(("'infinity'", "'-infinity'"))
        | ({} if name == "_NS" else dict.fromkeys(("'294247-01-10'", "'0001-01-01 (BC)'")))
        for name in ("", "_S", "_MS", "_NS")
    },
    "TIMESTAMPTZ": {"'2026-01-05 05:00:00+01'": datetime(2026, 1, 5, 4, tzinfo=UTC)}
    | dict.fromkeys(("'infinity'", "'294247-01-10 00:00+00'", "'0001-01-01 (BC) 00:00+00'")),
    "TIMESTAMPTZ_NS": {"'2026-01-05 05:00:00+01'": datetime(2026, 1, 5, 4, tzinfo=UTC)}
    | {"'infinity'": None},
    **dict.fromkeys(
        (
            *("TIME", "TIME_NS", "TIMETZ", "INTERVAL", "BLOB", "BIT"),
            *("INTEGER[]", "INTEGER[1]", "STRUCT(a INTEGER)", "MAP(INTEGER, INTEGER)"),
            *("UNION(a INTEGER)", "VARIANT", "GEOMETRY", "PARQUET_VARIANT", '"NULL"'),
        ),
        NONE,
    ),
}
OTHERS: Final = {
    # Cells of types that are missing.
    "TIME": "'05:00'",
    "TIME_NS": "'05:00'",
    "TIMETZ": "'05:00'::TIME",
    "INTERVAL": "'5 days'",
    "BLOB": "'5'",
    "BIT": "'101'",
    "INTEGER[]": "[5]",
    "INTEGER[1]": "[5]",
    "STRUCT(a INTEGER)": "{'a': 5}",
    "MAP(INTEGER, INTEGER)": "MAP {5: 5}",
    "UNION(a INTEGER)": "union_value(a := 5)",
    "VARIANT": "5::VARIANT",
    "GEOMETRY": "'POINT(5 5)'",
}
CATEGORIES: Final = ("5", "1", "ana", UUID, "16777215", "9" * 38, "7" * 99)
NUMBERED: Final = tuple(enumerate(TYPES))
WAYS: Final[tuple[Callable[[str], Column], ...]] = (
    lambda name: NumberColumn(name=name, lower=f"-{'9' * 15}", upper="9" * 15, places=12),
    lambda name: NumberColumn(name=name, lower="-9", upper="300"),
    lambda name: CategoryColumn(name=name, categories=CATEGORIES),
    lambda name: BooleanColumn(name=name),
    lambda name: DateColumn(name=name, first="0001-01-01", last="9999-12-31"),
    lambda name: TimeColumn(name=name, first="0001-01-01", last="9999-12-31"),
)
"""The ways in which a schema may declare a column."""


def cells_of(type_: str) -> Cells:
    """Return SQL of cells, with what each is."""
    return {**TYPES[type_], **({OTHERS[type_]: None} if type_ in OTHERS else {}), "NULL": None}


ROWS: Final = max(len(cells_of(type_)) for type_ in TYPES)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a column of each type, and a view of it."""
    path = tmp_path_factory.mktemp("types") / "types.duckdb"
    with duckdb.connect(path) as connection:
        columns = ", ".join(f"x{i} {type_}" for i, type_ in NUMBERED)
        connection.execute(f"CREATE TABLE t (unit INTEGER, {columns})")
        for row in range(ROWS):
            literals = [[*cells_of(type_), *(["NULL"] * ROWS)][row] for type_ in TYPES]
            connection.execute(f"INSERT INTO t VALUES ({row}, {', '.join(literals)})")
        connection.execute("CREATE VIEW v AS FROM t")
        connection.execute("CREATE TABLE tuples AS SELECT 0 AS unit, row(5, 5) AS x0")
    return path


def schema_of(columns: tuple[Column, ...], unit: str) -> Schema:
    return check_schema(
        Schema(
            source=SOURCE,
            columns=columns,
            unit=UnitColumn(column=unit, rows=1),
            neighbours="replace",
        )
    )


def assert_read(
    settings: SourceSettings,
    expected: Mapping[str, Sequence[object]],
    ways: Sequence[Callable[[str], Column]] = WAYS,
) -> None:
    """Compare what columns are read as, declared in each of these ways and as the unit."""
    for way in ways:
        columns = tuple(map(way, expected))
        with connected(settings, {"unit", *expected}) as opened:
            rows = SchemaRows(schema_of(columns, "unit"), opened.tables)
            rows.define_functions(opened.connection)
            read_in_full(opened, rows)
            found = run(
                opened.connection,
                f"SELECT COLUMNS('c.*') FROM ({rows.sql(rows.every)}) ORDER BY u::INTEGER",
            )
        for column, cells, values in zip(
            columns, expected.values(), zip(*found, strict=True), strict=True
        ):
            assert [schema_value(column, value) for value in values] == [
                read_cell(column, cell) for cell in cells
            ], column
    with connected(settings, {"unit", *expected}) as opened:
        place = NumberColumn(name="unit", lower="0", upper="99")
        for i, (name, cells) in enumerate([*expected.items()][:: 1 if NIGHTLY else 8]):
            rows = SchemaRows(schema_of((place,), name), opened.tables)
            if i == 0:
                rows.define_functions(opened.connection)
            if i == 0 or NIGHTLY:  # the query below reads the same cells
                read_in_full(opened, rows)
            units = run(
                opened.connection, f"SELECT {UNIT_TEXT}, u FROM ({rows.sql([0])}) ORDER BY c0"
            )
            names = [identifier(cell) for cell in cells]
            assert [text for text, _ in units] == names, name
            # Rows are of one unit if they have one name, and only then.
            assert (
                len({(text, u) for text, u in units}) == len({*names}) == len({u for _, u in units})
            )


def test_the_table_has_every_type(file: Path) -> None:
    with duckdb.connect(file, read_only=True) as connection:
        every = {name for (name,) in run(connection, "SELECT logical_type FROM duckdb_types()")}
        described = [*connection.sql("FROM t").types, *connection.sql("FROM tuples").types]
    # No table has a column of types.
    assert {kind.lower() for kind in every} - {"type"} == {str(each.id) for each in described}


@pytest.mark.parametrize("table", ["t", "v"])
def test_each_type_of_a_duckdb_file_is_read_as_the_how_to_says(table: str, file: Path) -> None:
    expected = {
        f"x{i}": [*cells_of(type_).values(), *([None] * ROWS)][:ROWS] for i, type_ in NUMBERED
    }
    # The engine reads the cells of a view as those of its table.
    ways = WAYS if table == "t" else WAYS[: rounds(1, 4)]
    assert_read(DuckdbSource(path=str(file), table=table), expected, ways)


def test_a_tuple_is_missing(file: Path) -> None:
    assert_read(DuckdbSource(path=str(file), table="tuples"), {"x0": [None]}, WAYS[: rounds(1, 4)])


NOT_IN_PARQUET: Final = ("BIT", '"NULL"')
"""The first one becomes a text, the other one cannot be written."""


def in_parquet(type_: str) -> Callable[[object], object]:
    """Return what a cell is in a Parquet file that DuckDB has written."""
    if type_ in ("HUGEINT", "UHUGEINT"):
        return lambda cell: cell if cell is None else float(cell)  # type: ignore[arg-type]
    if type_ == "BIGNUM":
        return lambda cell: cell if cell is None else str(cell)
    return lambda cell: cell


def test_each_type_of_a_parquet_file_is_read_as_the_how_to_says(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "types.parquet"
    with duckdb.connect(file, read_only=True) as connection:
        listed = ", ".join(f"x{i}" for i, type_ in NUMBERED if type_ not in NOT_IN_PARQUET)
        connection.execute(f"COPY (SELECT unit, {listed} FROM t) TO '{path}' (FORMAT parquet)")
    expected = {
        f"x{i}": [*map(in_parquet(type_), cells_of(type_).values()), *([None] * ROWS)][:ROWS]
        for i, type_ in NUMBERED
        if type_ not in NOT_IN_PARQUET
    }
    assert_read(ParquetSource(path=str(path)), expected, WAYS[:: 1 if NIGHTLY else 2])
