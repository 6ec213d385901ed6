"""Statistics of files, compared with the reference evaluation of the same rows."""

from __future__ import annotations

import math
import tempfile
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from accountant.questions import Schema, check_schema
from accountant.questions.decimals import decimal_text
from accountant.questions.schema import (
    BooleanColumn,
    CategoryColumn,
    NumberColumn,
    UnitColumn,
)
from accountant.questions.statistics import WORDS
from tests.accountant.questions.schemas import SOURCE
from tests.nightly import rounds
from tests.streams.sources.source_files import Columns, assert_equal_to_the_reference

CATEGORIES = ("a", "1", "-7", "it's", 'say "a"', "ünï", "true", "0.5")
TEXTS = (
    *("", " ", "a", "A", "a ", "it's", 'say "a"', "ünï", "true", "True", "FALSE", "false"),
    *("0", "1", "01", "+1", "-7", "-0", "1.0", ".5", "-.5", "5.", "0.5", "-0.5", "1.5", "2.5"),
    *("1e400", "-1e400", "1e9999", "1e10000", "1e-400", "25e-1", "1E2", "nan", "inf", "-inf"),
    *(
        "+1.5",
        "-1.25",
        "+0.5",
        "0.05",
        "-0.05",
        "1.05",
        "-00.150",
        "1.0500000000000000001",
        "9" * 18,
        "9" * 19,
        "-" + "9" * 40,
        "0" * 99 + "1",
        "0" * 101,
        "0x1",
        "1_0",
        " 1",
        "1\n",
    ),
    *("\u0661", "1,5", "x\ny", "NULL", "\\N", "0.000000000000500", "0.1234567890125", "#", "\t"),
)


@st.composite
def numbers_of(draw: st.DrawFn, name: str) -> NumberColumn:
    places = draw(st.sampled_from([0, 0, 1, 2, 3, 12]))
    most = draw(st.sampled_from([3, 200, 10**4, 10**9, 10**15]))
    grid = 10**places
    low = draw(st.integers(-most * grid + 1, most * grid - 2))
    high = draw(st.integers(low + 1, min(low + 500 * grid, most * grid - 1)))
    fields = dict[str, Any]()
    if draw(st.booleans()):
        fields["missing"] = decimal_text(Fraction(draw(st.integers(low, high)), grid))
    step = draw(st.integers(max(1, (high - low) // 50), max(1, high - low)))
    return NumberColumn(
        name=name,
        lower=decimal_text(Fraction(low, grid)),
        upper=decimal_text(Fraction(high, grid)),
        places=places,
        step=decimal_text(Fraction(step, grid)),
        **fields,
    )


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    categories = draw(st.lists(st.sampled_from(CATEGORIES), min_size=1, max_size=4, unique=True))
    missing = draw(st.sampled_from([None, *categories]))
    true_or_false = draw(st.sampled_from([None, True, False]))
    unit = draw(st.sampled_from([None, 1, 2, 5]))
    columns = (
        draw(numbers_of("x")),
        draw(numbers_of("y")),
        CategoryColumn(
            name="c",
            categories=tuple(categories),
            **({} if missing is None else {"missing": missing}),
        ),
        BooleanColumn(name="t", **({} if true_or_false is None else {"missing": true_or_false})),
    )
    more = {} if unit is None else {"unit": UnitColumn(column="unit", rows=unit)}
    return check_schema(
        Schema(source=SOURCE, columns=columns, neighbours="add_remove", **more)  # type: ignore[arg-type]
    )


def near(column: NumberColumn) -> st.SearchStrategy[Fraction]:
    """Return numbers at, between and beside the values of a column."""
    lower, upper = column.bounds
    steps = int((upper - lower) / column.grid)
    middle = st.sampled_from([Fraction(0), Fraction(1, 2), Fraction(1, 3), Fraction(-1, 10**9)])
    at = st.sampled_from([-2, -1, 0, 1, steps - 1, steps, steps + 1]) | st.integers(-2, steps + 2)
    return st.builds(lambda i, part: lower + (i + part) * column.grid, at, middle)


def floats_near(column: NumberColumn) -> st.SearchStrategy[float]:
    def moved(value: Fraction, ulps: int) -> float:
        number = float(value)
        for _ in range(abs(ulps)):
            number = math.nextafter(number, math.copysign(math.inf, ulps))
        return number

    return st.builds(moved, near(column), st.integers(-2, 2))


INTEGERS = {
    each: (0 if each.startswith("u") else -(2 ** (bits - 1)), 2 ** (bits - (each[0] != "u")) - 1)
    for bits in (8, 16, 32, 64)
    for each in (f"int{bits}", f"uint{bits}")
}
SMALL = st.integers(0, 7)
FLOATS = st.sampled_from([0.0, -0.0, 0.5, -0.5, 1.5, 1.0, -7.0, 0.49999999999999994, 2.0**53])
DECIMALS = [(9, 2), (12, 0), (38, 10), (38, 38), (38, 0), (18, 3), (4, 4)]


@st.composite
def cells(draw: st.DrawFn, column: NumberColumn | None, size: int) -> tuple[Any, list[object]]:
    """Return an Arrow type and cells of it."""
    kinds = ["int", "float64", "float32", "decimal", "text", "text", "bool", "other"]
    kind = draw(st.sampled_from(kinds))
    each: st.SearchStrategy[object]
    near_values = SMALL.map(Fraction) if column is None else near(column)
    match kind:
        case "int":
            name = draw(st.sampled_from(sorted(INTEGERS)))
            low, high = INTEGERS[name]
            near_whole = near_values.map(lambda value: min(max(math.floor(value), low), high))
            each, type_ = near_whole | st.sampled_from([low, high, 0, 1]), getattr(pa, name)()
        case "float64" | "float32":
            beside = SMALL.map(float) if column is None else floats_near(column)
            width = int(kind[-2:])
            every = st.floats(width=width) | FLOATS | beside
            each, type_ = every, getattr(pa, kind)()
        case "decimal":
            precision, scale = draw(st.sampled_from(DECIMALS))
            most = 10**precision - 1

            near_unscaled = near_values.map(
                lambda value: min(max(math.floor(value * 10**scale), -most), most)
            )
            unscaled = near_unscaled | st.integers(-most, most)
            # Arithmetic would round to the context's 28 digits.
            each = unscaled.map(
                lambda i: Decimal((int(i < 0), tuple(map(int, str(abs(i)))), -scale))
            )
            type_ = pa.decimal128(precision, scale)
        case "text":
            number = near_values.map(lambda value: f"{float(value):.15g}")
            each, type_ = st.sampled_from(TEXTS) | SMALL.map(str) | number, pa.string()
        case "bool":
            each, type_ = st.booleans(), pa.bool_()
        case _:
            other: list[tuple[Any, object]] = [
                (pa.date32(), date(2026, 1, 1)),
                (pa.binary(), b"1"),
                (pa.list_(pa.int64()), [1]),
                (pa.struct([("a", pa.int64())]), {"a": 1}),
            ]
            type_, cell = draw(st.sampled_from(other))
            each = st.just(cell)
    return type_, draw(st.lists(st.none() | each | each | each, min_size=size, max_size=size))


@st.composite
def tables(draw: st.DrawFn, schema: Schema) -> Columns:
    size = draw(st.integers(0, 12))
    columns = dict[str, tuple[Any, list[object]]]()
    for column in schema.columns:
        if draw(st.integers(0, 9)):
            number = column if isinstance(column, NumberColumn) else None
            columns[column.name] = draw(cells(number, size))
    if draw(st.integers(0, 9)) or not columns:
        columns["unit"] = draw(cells(None, size))
    columns["not in the schema"] = (pa.string(), ["x"] * size)
    return columns


@st.composite
def filters(draw: st.DrawFn, schema: Schema) -> str:
    def literal(column: NumberColumn) -> str:
        grid = Fraction(1, 10 ** min(column.places + 1, 12))
        value = min(max(draw(near(column)), Fraction(1 - 10**15)), Fraction(10**15 - 1))
        return decimal_text(math.floor(value / grid) * grid)

    def test() -> str:
        column = draw(st.sampled_from(schema.columns))
        negated = draw(st.sampled_from(["", "not "]))
        if isinstance(column, NumberColumn):
            if draw(st.booleans()):
                return f"{column.name} {negated}in ({literal(column)}, {literal(column)})"
            sign = draw(st.sampled_from(["=", "!=", "<", "<=", ">", ">="]))
            return f"{column.name} {sign} {literal(column)}"
        if isinstance(column, BooleanColumn):
            return f"{column.name} {draw(st.sampled_from(['=', '!=']))} true"
        text = draw(st.sampled_from(column.categories)).replace("'", "''")
        sign = draw(st.sampled_from(["=", "!="]))
        in_list = f"{column.name} {negated}in ('{text}')"
        return draw(st.sampled_from([in_list, f"{column.name} {sign} '{text}'"]))

    def missing() -> str:
        names = [column.name for column in schema.columns if column.missing is UNSET]
        if not names:
            return test()
        return f"{draw(st.sampled_from(names))} is {draw(st.sampled_from(['', 'not ']))}missing"

    parts = [draw(st.sampled_from([test, test, missing]))() for _ in range(draw(st.integers(1, 3)))]
    joined = f" {draw(st.sampled_from(['and', 'or']))} ".join(parts)
    return f"not ({joined})" if draw(st.booleans()) else joined


ASKED = (
    *("count", "count", "sum(x)", "sum(x)", "mean(y)", "variance(x)", "variance(y)", "std(x)"),
    *("median(x)", "quantile(y, 0.9)", "min(x)", "max(y)", "histogram(c)", "top(c, 1)"),
    *("count, mean(x), variance(x), median(y)", "sum(y), mean(x), top(c, 1), count"),
    *("median(x), quantile(x, 0.9), median(y), sum(y)", "sum(x), sum(y), top(c, 1), median(x)"),
)


def test_each_statistic_is_compared() -> None:
    assert {each.partition("(")[0] for text in ASKED for each in text.split(", ")} >= {*WORDS}


@st.composite
def questions(draw: st.DrawFn, schema: Schema) -> str:
    text = draw(st.sampled_from(ASKED))
    if draw(st.booleans()):
        text += f" where {draw(filters(schema))}"
    by = draw(
        st.sampled_from(["", "", "t"] if "(c" in text else ["", "", "t", "c", "t, c", "c, t"])
    )
    if by:
        text += f" by {by}"
    rows = draw(st.sampled_from([None, 1, schema.rows_per_unit]))
    text += "" if rows is None else f" rows {rows}"
    per_group = draw(st.sampled_from([None, None, 1, 2]))
    if per_group is not None and per_group <= (rows or schema.rows_per_unit):
        text += f" rows_per_group {per_group}"
    return text


@pytest.mark.timeout(3_600)  # by night
@settings(max_examples=rounds(25, 2_000), deadline=None)
@given(st.data())
def test_each_kind_of_file_has_the_statistics_of_the_reference(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    columns = data.draw(tables(schema))
    text = data.draw(questions(schema))
    key = data.draw(st.binary(max_size=4))
    with tempfile.TemporaryDirectory() as path:
        assert_equal_to_the_reference(text, schema, columns, Path(path), key=key)
