"""The keyed hash of a row in SQL, and the rows of a unit that it chooses."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from accountant.questions import Schema, check_schema
from accountant.questions.evaluate import SchemaRow, content_digest, row_content
from accountant.questions.schema import BooleanColumn, CategoryColumn, NumberColumn
from streams.sources.cells import schema_value
from streams.sources.database import OpenedSource
from streams.sources.row_digest import content_sql, digest_sql
from tests.accountant.questions.schemas import SOURCE, small_schema
from tests.nightly import rounds
from tests.streams.sources.source_files import assert_equal_to_the_reference
from tests.streams.sources.test_data_sources import of_rows

SCHEMA = check_schema(
    Schema(
        source=SOURCE,
        columns=(
            NumberColumn(name="n", lower="-999999999999999", upper="999999999999999", places=12),
            NumberColumn(name="m", lower="-9", upper="99"),
            CategoryColumn(name="c", categories=("it's", 'say "a"', "ünï", "back\\slash")),
            BooleanColumn(name="b"),
        ),
        neighbours="replace",
    )
)
CONTROLS = "".join(map(chr, range(0x20)))
UNITS = (
    *("", "a", '"', "\\", '\\"', "'", CONTROLS, "\x7f\x80\u2028\u2029\ud7ff\ue000\uffff\U0001f600"),
    *("x" * 300 + '"\\\n', "\\u0000", "$1"),
)
VALUES: tuple[tuple[int | None, ...], ...] = (
    (None, None, None, None),
    (0, 0, 0, 0),
    (-1, -9, 1, 1),
    (10**12, 10, 2, 1),
    (-15 * 10**11, 99, 3, 0),
    (123_456_789_000, 5, 0, 0),
    (-999_999_999_999_999 * 10**12, 1, 1, 1),
)


ROWS = [(unit, *values) for unit in UNITS for values in VALUES]


@pytest.fixture(scope="module")
def table() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to a table `t` of ROWS."""
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE t (i BIGINT, u VARCHAR, c0 HUGEINT, c1 BIGINT, c2 BIGINT, c3 BIGINT)"
        )
        connection.executemany(
            "INSERT INTO t VALUES ($1, $2, $3, $4, $5, $6)",
            [(i, *row) for i, row in enumerate(ROWS)],
        )
        yield connection


@pytest.mark.parametrize("key", [b"", b"k", b"k" * 64, b"k" * 65], ids=len)
def test_the_hash_in_sql_is_that_of_the_reference(
    key: bytes, table: duckdb.DuckDBPyConnection
) -> None:
    digest = digest_sql(content_sql(SCHEMA.columns, "u", ["c0", "c1", "c2", "c3"]), key=key)
    found = table.execute(f"SELECT {digest} FROM t ORDER BY i").fetchall()
    for (hexadecimal,), (unit, *values) in zip(found, ROWS, strict=True):
        read = {
            column.name: schema_value(column, value)  # type: ignore[arg-type]
            for column, value in zip(SCHEMA.columns, values, strict=True)
        }
        content = row_content(SchemaRow(str(unit), read))
        assert hexadecimal == content_digest(content, key=key).hex(), content


@pytest.mark.parametrize(("at_once", "most_in_a_heap"), [(500_000, 1), (3, 100_000), (3, 1)])
def test_the_rows_of_crowded_units_are_those_of_the_reference(
    at_once: int, most_in_a_heap: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OpenedSource, "rows_at_once", property(lambda _: at_once))
    monkeypatch.setattr("streams.sources.statistics._MOST_IN_A_HEAP", most_in_a_heap)
    draw = random.Random(3)
    units = ["u", "v", "w" * 100, "w" * 99 + "x", 'q"']
    rows = [
        (
            draw.choice(units),
            draw.choice([-2, 0, 1.5, 3, None]),
            draw.choice("abc"),
            draw.choice([True, None]),
        )
        for _ in range(120)
    ]
    # Each of them has too many rows for one column alone.
    rows += [("only c", None, "a", None)] * 4 + [("only x", 1.5, None, None)] * 4
    for text in (
        "variance(x) by c",
        "median(x) by t",
        "count, mean(x), median(x), top(c, 1) by t",
        "sum(clamp(x, 0, 2)), sum(x), top(c, 1) where t = false",
    ):
        # The choice is of the rows that are read, whatever the kind of the file.
        kinds = ("parquet", "csv", "duckdb")[: rounds(1, 3)]
        schema, columns = small_schema(rows=2), of_rows(rows)
        assert_equal_to_the_reference(text, schema, columns, tmp_path, kinds=kinds)
