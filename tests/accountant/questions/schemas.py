"""Small schemas and tables for the tests of questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations_with_replacement
from typing import Any

from accountant.policy import Neighbours
from accountant.questions import Schema, check_schema
from accountant.questions.schema import (
    BooleanColumn,
    CategoryColumn,
    DataSource,
    DateColumn,
    NumberColumn,
    TimeColumn,
    UnitColumn,
)

Cells = Mapping[str, object]
Table = tuple[Cells, ...]
SOURCE = DataSource(kind="parquet", name="census")
CENSUS = check_schema(
    Schema(
        source=SOURCE,
        columns=(
            NumberColumn(name="age", lower="0", upper="120", step="5"),
            NumberColumn(name="income", lower="-1000", upper="250000.5", places=2, missing="0"),
            CategoryColumn(name="region", categories=("north", "south", "it's")),
            CategoryColumn(name="job", categories=("yes", "no"), missing="no"),
            BooleanColumn(name="smoker"),
        ),
        unit=UnitColumn(column="person", rows=3),
        neighbours="add_remove",
    )
)


def small_schema(
    *, lower: str = "-2", upper: str = "3", rows: int = 2, neighbours: Neighbours = "add_remove"
) -> Schema:
    """Return a schema of one number, one category and one boolean."""
    return check_schema(
        Schema(
            source=SOURCE,
            columns=(
                NumberColumn(name="x", lower=lower, upper=upper),
                CategoryColumn(name="c", categories=("a", "b")),
                BooleanColumn(name="t", missing=False),
            ),
            unit=UnitColumn(column="unit", rows=rows),
            neighbours=neighbours,
        )
    )


def visits(**fields: Any) -> Schema:
    """Return a schema of a winter's dates and times."""
    columns = (
        DateColumn(name="d", first="2025-11-01", last="2026-02-28"),
        TimeColumn(name="t", first="2025-11-01", last="2026-02-28"),
        CategoryColumn(name="c", categories=("a", "b")),
        NumberColumn(name="x", lower="-2", upper="3"),
    )
    given: dict[str, Any] = {"columns": columns, "unit": UnitColumn(column="unit", rows=2)}
    given |= {"neighbours": "add_remove"} | fields
    return check_schema(Schema(source=SOURCE, **given))


def multisets(pool: list[Cells], most: int) -> Iterator[Table]:
    """Yield every choice of at most so many rows, with repetition, whatever the order."""
    for size in range(most + 1):
        yield from combinations_with_replacement(pool, size)


def of_unit(unit: object, table: Table) -> Table:
    return tuple({"unit": unit, **cells} for cells in table)


def replaced(schema: Schema, **fields: Any) -> Schema:
    """Return a schema with other fields, checked."""
    import msgspec

    return check_schema(msgspec.structs.replace(schema, **fields))
