"""SQL reads each text of a number as the reference does, and the common ones by itself."""

from __future__ import annotations

import random
from collections.abc import Sequence

import duckdb
import pyarrow as pa
import pytest

from accountant.questions.schema import NumberColumn
from accountant.questions.schema_values import read_cell
from streams.sources.cells import (
    CSV_TEXT,
    SourceColumn,
    exact_functions,
    number_type,
    schema_value,
    value_sql,
)

ODD = (
    *("", "+", "-", ".", "+.", "1.", "-1.", ".5", "+.5", "1..2", "1.2.3", "--1", "+-1", "1 ", " 1"),
    *("1_000", "1e3", "\u0663", "1,5", "0x1", "00", "-0", "-0.0", "+0", "1\n", "1.5\r", "inf"),
)


def texts() -> list[str | None]:
    draw = random.Random(1)

    def digits(most: int) -> str:
        return "".join(draw.choice("0000999995123") for _ in range(draw.randint(0, most)))

    def text() -> str:
        point = draw.choice(["", ".", "."])
        sign = draw.choice(["", "", "-", "+"])
        return f"{sign}{digits(20)}{point}{digits(20) if point else ''}"

    return [None, *ODD, *(text() for _ in range(1_500))]


def values_of(
    column: NumberColumn, each: Sequence[str | None]
) -> tuple[list[object], list[str | None]]:
    """Return the values of texts, and the texts that SQL has left to Python."""
    of_text, _ = exact_functions(column)
    left = list[str | None]()

    def noting(text: str | None) -> int | None:
        left.append(text)
        return of_text(text)

    value = value_sql(column, SourceColumn("x", CSV_TEXT), "f")
    table = pa.table({"i": range(len(each)), "x": pa.array(each, pa.string())})
    with duckdb.connect() as connection:
        connection.register("texts", table)
        connection.create_function(
            "f_text", noting, ["VARCHAR"], number_type(column), null_handling="special"
        )
        rows = connection.execute(f"SELECT {value} FROM texts ORDER BY i").fetchall()
    return [schema_value(column, found) for (found,) in rows], left


@pytest.mark.parametrize("places", [0, 1, 2, 6, 12])
@pytest.mark.parametrize(
    ("lower", "upper"), [("-1", "0"), ("0", "200000"), ("-999999999999999", "999999999999999")]
)
def test_a_text_has_the_value_of_the_reference(places: int, lower: str, upper: str) -> None:
    column = NumberColumn(name="x", lower=lower, upper=upper, places=places)
    found, _ = values_of(column, each := texts())
    assert found == [read_cell(column, text) for text in each]


def test_common_texts_need_no_python() -> None:
    column = NumberColumn(name="x", lower="0", upper="200000", places=2)
    common = [None, "1", "-1", "+12.5", "123456789012345.12", "0.123456789012345678", "9" * 15]
    assert values_of(column, common) == ([read_cell(column, text) for text in common], [])
