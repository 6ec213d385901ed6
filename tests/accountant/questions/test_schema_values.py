"""What each cell is read as: there is always a value, or it is missing."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from accountant.questions.schema import BooleanColumn, CategoryColumn, NumberColumn
from accountant.questions.schema_values import read_cell
from tests.every_case import check_each, check_rows

TENTHS = NumberColumn(name="x", lower="-2", upper="3.5", places=1)
REGION = CategoryColumn(name="c", categories=("a", "1", "-7"))
FLAG = BooleanColumn(name="b")


def test_a_number_is_clamped_and_rounded_half_up() -> None:
    def check_case(cell: object, value: str) -> None:
        assert read_cell(TENTHS, cell) == Fraction(value)

    check_rows(
        check_case,
        [
            *(
                (1, "1"),
                (-5, "-2"),
                (10**300, "3.5"),
                (0.25, "0.3"),
                (-0.25, "-0.2"),
                (1e300, "3.5"),
            ),
            *((math.inf, "3.5"), (-math.inf, "-2"), (0.1, "0.1"), (1e-320, "0"), (-0.0, "0")),
            *((Decimal("1e999999"), "3.5"), (Decimal("-1e-999999"), "0"), (Decimal("Inf"), "3.5")),
            *(
                (Fraction(1, 3), "0.3"),
                ("2.25", "2.3"),
                ("+.5", "0.5"),
                ("-1.", "-1"),
                ("7e-1", "0.7"),
            ),
            *(("1e400", "3.5"), ("-1e9999", "-2"), ("1e-9999", "0"), ("0" * 99 + "1", "1")),
        ],
    )


def test_what_is_no_number_is_missing() -> None:
    def check_case(cell: object) -> None:
        assert read_cell(TENTHS, cell) is None
        assert read_cell(NumberColumn(name="x", lower="0", upper="9", missing="4"), cell) == 4

    check_each(
        check_case,
        [
            *(None, True, False, math.nan, Decimal("NaN"), Decimal("sNaN"), b"1", [1], {}, 1j),
            *("", " 1", "1 ", "one", "0x1", "1_000", "inf", "nan", "1e10000", "0" * 101, "\u0661"),
        ],
    )


def test_what_is_no_declared_category_is_missing() -> None:
    def check_case(cell: object, value: str | None) -> None:
        assert read_cell(REGION, cell) == value
        other = CategoryColumn(name="c", categories=REGION.categories, missing="a")
        assert read_cell(other, cell) == (value or "a")

    check_rows(
        check_case,
        [
            *(
                ("a", "a"),
                (1, "1"),
                (1.0, "1"),
                (-7, "-7"),
                ("A", None),
                ("a ", None),
                (True, None),
            ),
            *((1.5, None), (math.nan, None), (math.inf, None), (None, None), (10**200, None)),
            *(("\ud800", None), (b"a", None), (Decimal(1), None)),
        ],
    )


def test_what_is_neither_true_nor_false_is_missing() -> None:
    def check_case(cell: object, value: bool | None) -> None:
        assert read_cell(FLAG, cell) is value
        assert read_cell(BooleanColumn(name="b", missing=False), cell) is (value or False)

    check_rows(
        check_case,
        [
            *((True, True), (0, False), (1.0, True), ("true", True), ("false", False)),
            *(("TRUE", None), (2, None), (math.nan, None), (None, None), ("", None)),
        ],
    )


@given(st.floats() | st.integers() | st.decimals(allow_nan=False))
def test_every_number_becomes_one_of_the_grid_within_the_bounds(cell: object) -> None:
    value = read_cell(TENTHS, cell)
    if isinstance(cell, float) and math.isnan(cell):
        assert value is None
        return
    assert isinstance(value, Fraction)
    assert Fraction(-2) <= value <= Fraction(7, 2)
    assert (value * 10).denominator == 1
    if -2 <= cell <= 3:  # type: ignore[operator]
        assert abs(value - Fraction(cell)) <= Fraction(1, 20)  # type: ignore[arg-type]
