"""Bands and narrow bounds in files, compared with the reference evaluation of the same rows."""

from __future__ import annotations

import tempfile
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from accountant.questions import Schema, check_schema
from accountant.questions.decimals import decimal_text
from accountant.questions.schema import CategoryColumn, NumberColumn, UnitColumn
from tests.accountant.questions.schemas import SOURCE
from tests.nightly import rounds
from tests.streams.sources.source_files import WRITERS, assert_equal_to_the_reference
from tests.streams.sources.test_differential import cells, numbers_of


@st.composite
def questions(draw: st.DrawFn, column: NumberColumn) -> str:
    lower, upper = (bound / column.grid for bound in column.bounds)
    low, high = lower.numerator, upper.numerator

    def text(number: int) -> str:
        return decimal_text(number * column.grid)

    ends = st.sampled_from([low, low + 1, high - 1, high])
    numbers = (ends | st.integers(low, high)).filter(lambda number: low <= number <= high)
    cuts = sorted(draw(st.lists(numbers, min_size=2, max_size=4, unique=True)))
    width = text(draw(st.integers(max(1, (high - low) // 50), 2 * (high - low))))
    clamped = f"clamp(x, {text(cuts[0])}, {text(cuts[-1])})"
    asked = [
        f"count by band(x, {', '.join(map(text, cuts))})",
        f"sum(x) by band(x, width {width})",
        f"histogram({draw(st.sampled_from(['x', clamped]))}, width {width})",
        *(f"{name}({clamped})" for name in ("sum", "mean", "variance", "median")),
        f"sum({clamped}) where x <= {text(cuts[1])} by band(x, width {width}), c",
    ]
    return draw(st.sampled_from(asked))


@pytest.mark.timeout(3_600)  # by night
@settings(max_examples=rounds(25, 2_000), deadline=None)
@given(st.data())
def test_each_kind_of_file_has_the_bands_of_the_reference(data: st.DataObject) -> None:
    column = data.draw(numbers_of("x"))
    schema: Schema = check_schema(
        Schema(
            source=SOURCE,
            columns=(column, CategoryColumn(name="c", categories=("a", "b"))),
            neighbours="replace",
            unit=data.draw(st.sampled_from([UNSET, UnitColumn(column="unit", rows=1)])),
        )
    )
    size = data.draw(st.integers(0, 10))
    columns = {
        "x": data.draw(cells(column, size)),
        "c": (pa.string(), ["ab"[i % 2] for i in range(size)]),
        "unit": (pa.int64(), [i // 2 for i in range(size)]),
    }
    text = data.draw(questions(column))
    kinds = [data.draw(st.sampled_from([*WRITERS]))]
    with tempfile.TemporaryDirectory() as path:
        assert_equal_to_the_reference(text, schema, columns, Path(path), kinds=kinds)


def test_ends_of_bands_are_those_of_the_reference(tmp_path: Path) -> None:
    numbers = [Fraction(each, 10) for each in range(-11, 32)]
    columns = {"x": (pa.string(), [decimal_text(each) for each in numbers])}
    schema = Schema(
        source=SOURCE,
        columns=(NumberColumn(name="x", lower="-1", upper="3", places=1, step="1"),),
        neighbours="add_remove",
    )
    for text in (
        "count by band(x, -0.9, 0, 2.9)",
        "count by band(x, width 0.3)",
        "histogram(clamp(x, -0.5, 2.5), width 0.7)",
        "variance(clamp(x, -1, 2.9)) by band(x, 0)",
    ):
        assert_equal_to_the_reference(text, schema, columns, tmp_path)
