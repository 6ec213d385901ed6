"""Four statistics of ten groups in one question: processor time beside the same SQL in DuckDB."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Final

import duckdb

from accountant.questions import Schema, check_schema, parse_question
from accountant.questions.schema import (
    CategoryColumn,
    DataSource,
    NumberColumn,
    SourceKind,
    UnitColumn,
)
from benchmarks.measure import Row, Scale
from streams.sources import DataSources
from streams.sources.source_settings import CsvSource, ParquetSource, SourceSettings

_ROWS: Final = 1_000_000
_ROUNDS: Final = 5
_ASKED: Final = "count, mean(income), sum(income), median(age) by region"
_PLAIN: Final = """
SELECT region, count(*), avg(least(200000, greatest(0, income::DOUBLE))),
    sum(least(200000, greatest(0, income::DOUBLE))), quantile_disc(age::BIGINT, 0.5)
FROM {file} GROUP BY region
"""
# Nine in ten rows are of people with 3 rows, the others of people with 10, above the bound.
_TABLE: Final = """
SELECT CASE WHEN range < {rows} // 10 * 9 THEN range % ({rows} // 10 * 3)
        ELSE {rows} + range % ({rows} // 100) END AS person,
    (hash(range) % 120)::INTEGER AS age,
    CASE WHEN hash(range + 3) % 50 > 0
        THEN (hash(range + 1) % 25000000) / 100.0::DOUBLE END AS income,
    'region ' || (hash(range + 2) % 10) AS region,
    'ward ' || (hash(range + 4) % 100) AS ward
FROM range({rows})
"""
_COLUMNS: Final = (
    NumberColumn(name="age", lower="0", upper="120"),
    NumberColumn(name="income", lower="0", upper="200000", places=2),
    CategoryColumn(name="region", categories=tuple(f"region {i}" for i in range(10))),
)
_WARD: Final = CategoryColumn(name="ward", categories=tuple(f"ward {i}" for i in range(100)))


def rows(scale: Scale) -> Iterator[Row]:
    """Measure Parquet and CSV, with each row a unit and with some 3 rows of a unit."""
    count = scale.of(_ROWS)
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("parquet", "csv"):
            path = f"{folder}/census.{kind}"
            table = _TABLE.format(rows=count)
            duckdb.connect().execute(f"COPY ({table}) TO '{path}' (FORMAT {kind})").fetchall()
            settings = CsvSource(path=path) if kind == "csv" else ParquetSource(path=path)
            for name, more in (
                ("each row a unit", {}),
                ("3 rows of a unit", {"unit": UnitColumn(column="person", rows=3)}),
                ("and a column more", {"unit": UnitColumn(column="person", rows=3)}),
            ):
                columns = (*_COLUMNS, _WARD) if name == "and a column more" else _COLUMNS
                yield _measured(f"{kind}, {name}", settings, _schema(kind, columns, **more), count)


def _schema(kind: SourceKind, columns: tuple[object, ...], **more: UnitColumn) -> Schema:
    source = DataSource(kind=kind, name="census")
    return check_schema(Schema(source=source, columns=columns, neighbours="add_remove", **more))  # type: ignore[arg-type]


def _measured(name: str, settings: SourceSettings, schema: Schema, count: int) -> Row:
    """Return how many times as long the processors work; in turns, the least of each."""
    sources = DataSources({"census": settings})
    checked = parse_question(_ASKED, schema)
    plain = duckdb.connect(config={"threads": settings.threads})
    statement = _PLAIN.format(file=f"read_{schema.source.kind}('{settings.path}')")

    def ask() -> None:
        sources.statistics(checked, key=b"key")

    ask()  # the first question reads the version in full
    ours, theirs = list[float](), list[float]()
    for _ in range(_ROUNDS):
        ours.append(_processor_s(ask))
        theirs.append(_processor_s(lambda: plain.execute(statement).fetchall()))
    return Row(
        name=f"four statistics by ten groups, {name}, / the same SQL in plain DuckDB",
        value=min(ours) / min(theirs),
        unit="times",
        note=f"{min(ours):.2f} s and {min(theirs):.3f} s of processors, {count:,} rows",
    )


def _processor_s(work: Callable[[], object]) -> float:
    """Return the seconds that all threads of this process work."""
    started = time.process_time()
    work()
    return time.process_time() - started
