"""Tables written as files of each kind, and the cells that a source of that kind has."""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import UNSET

from accountant.questions import CheckedQuestion, Schema, evaluate, parse_question
from accountant.questions.schema import DataSource, SourceKind
from streams.sources import DataSources
from streams.sources.source_settings import (
    CsvSource,
    DuckdbSource,
    ParquetSource,
    SourceSettings,
)
from streams.sources.zone_files import zone_of

Columns = Mapping[str, tuple[Any, Sequence[object]]]
"""Of each column of a file: its Arrow type, and its cells."""


def write_parquet(path: Path, columns: Columns) -> SourceSettings:
    table = pa.table({name: pa.array(cells, type_) for name, (type_, cells) in columns.items()})
    pq.write_table(table, path)
    return ParquetSource(path=str(path))


def write_duckdb(path: Path, columns: Columns) -> SourceSettings:
    table = pa.table({name: pa.array(cells, type_) for name, (type_, cells) in columns.items()})
    path.unlink(missing_ok=True)
    with duckdb.connect(path) as connection:
        connection.register("arrow_table", table)
        connection.execute('CREATE TABLE "the rows" AS SELECT * FROM arrow_table')
    return DuckdbSource(path=str(path), table="the rows")


def write_csv(path: Path, columns: Columns) -> SourceSettings:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        cells = [each for _, each in columns.values()]
        writer.writerows(zip(*map(texts_of_csv, cells), strict=True))
    return CsvSource(path=str(path))


def texts_of_csv(cells: Sequence[object]) -> list[str | None]:
    """Return the text of each cell, None where the file has nothing.

    A cell has no line feed in a CSV file; a carriage return is a character like others.
    """
    return [
        None if cell is None or str(cell) == "" else str(cell).replace("\n", "\r") for cell in cells
    ]


def cells_of(kind: SourceKind, columns: Columns, schema: Schema) -> list[dict[str, object]]:
    """Return the rows of a file as `evaluate` takes them, by what the how-to says of cells."""
    booleans = {each.name for each in schema.columns if each.__struct_config__.tag == "boolean"}
    read = dict[str, list[object]]()
    for name, (type_, cells) in columns.items():
        if kind == "csv":
            read[name] = [
                _csv_boolean(text) if name in booleans else text for text in texts_of_csv(cells)
            ]
        else:
            read[name] = [_cell(type_, cell) for cell in pa.array(cells, type_).to_pylist()]
            if schema.unit is not UNSET and name == schema.unit.column and type_ == pa.float32():
                read[name] = [None if cell and abs(cell) >= 2**24 else cell for cell in read[name]]  # type: ignore[arg-type]
    return [dict(zip(read, row, strict=True)) for row in zip(*read.values(), strict=True)]


def _csv_boolean(text: str | None) -> object:
    return {"true": True, "1": True, "false": False, "0": False}.get((text or "").lower())


def _cell(type_: Any, cell: object) -> object:
    if isinstance(cell, Decimal) and pa.types.is_decimal(type_) and type_.scale == 0:
        return int(cell)
    return cell


def with_source(schema: Schema, kind: SourceKind) -> Schema:
    return msgspec.structs.replace(schema, source=DataSource(kind=kind, name="census"))


def asked(text: str, schema: Schema, kind: SourceKind) -> CheckedQuestion:
    return parse_question(text, with_source(schema, kind))


def statistics_of_file(
    settings: SourceSettings, checked: CheckedQuestion, *, key: bytes
) -> tuple[tuple[Fraction, ...], ...]:
    return DataSources({"census": settings}).statistics(checked, key=key)


WRITERS = {"parquet": write_parquet, "csv": write_csv, "duckdb": write_duckdb}


def assert_equal_to_the_reference(
    text: str,
    schema: Schema,
    columns: Columns,
    path: Path,
    *,
    key: bytes = b"key",
    kinds: Collection[str] = tuple(WRITERS),
) -> None:
    """Write the table as a file of each kind; each has the statistics of `evaluate`."""
    for kind in kinds:
        write = WRITERS[kind]
        checked = asked(text, schema, kind)  # type: ignore[arg-type]
        rows = cells_of(kind, columns, schema)  # type: ignore[arg-type]
        settings = write(path / f"table.{kind}", columns)
        found = statistics_of_file(settings, checked, key=key)
        zone = zone_of(schema)
        assert zone is not None, schema.zone
        assert found == evaluate(checked, rows, key=key, zone=zone), f"{kind}: {text}"
