"""Numbers of programs as wire decimals: exactly, or refused with what to write instead."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accountant.amounts import UNIT, parse
from accountant.errors import RequestInvalid
from accountant.exact_numbers import exact_text, whole_number
from tests.every_case import check_each, check_rows


def text_of(value: object, *, up: bool = True) -> str:
    return exact_text(value, field="epsilon", up=up)


def test_an_exact_number_is_written_as_decimal_text() -> None:
    def check_case(value: object, text: str) -> None:
        found = text_of(value)
        assert found == text
        assert type(found) is str

    check_rows(
        check_case,
        [
            ("0.10", "0.10"),  # text is checked elsewhere, and keeps its bytes
            (0, "0"),
            (1, "1"),
            (10**9, "1e9"),
            (0.5, "0.5"),
            (3.0, "3"),
            (-0.0, "0"),
            (Decimal("0.1"), "0.1"),
            (Decimal("1E-7"), "1e-7"),
            (Decimal("1E+2"), "100"),
            (Decimal("-0"), "0"),
            (Decimal("1e-40"), "1e-40"),
            (Decimal("1e9"), "1e9"),
            (Fraction(1, 8), "0.125"),
            (Fraction(1, 10**40), f"0.{'0' * 39}1"),
            (np.int64(7), "7"),
            (np.uint8(7), "7"),
            (np.float64(0.25), "0.25"),
            (np.float32(0.25), "0.25"),
            (np.float16(2.0), "2"),
            (np.longdouble("0.25"), "0.25"),
            (np.str_("0.1"), "0.1"),
        ],
    )


def test_an_inexact_number_is_refused_with_field_rule_and_value() -> None:
    def check_case(value: object, message: str) -> None:
        with pytest.raises(RequestInvalid, match=message) as caught:
            text_of(value)
        assert caught.value.field == "epsilon"

    check_rows(
        check_case,
        [
            (0.1, 'this float is not exactly 0.1: write "0.1" as text, got 0.1'),
            (1e-6, 'not exactly 1e-6: write "1e-6" as text'),
            (1 / 3, 'write "0.3333333333333333" as text'),
            (2.0**-30, 'write "9.313225746154785e-10" as text'),  # it prints as another number
            (np.float64(0.1), 'write "0.1" as text'),
            (np.float32(0.1), 'write "0.1" as text'),  # 0.100000001490116119384765625
            (np.longdouble("0.1"), 'write "0.1" as text'),
            (
                Decimal("0.1000000000000000055511151231257827021181583404541015625"),
                'write "0.10000000000000000556", which is rounded up',
            ),
            (Fraction(1, 3), 'write "0.33333333333333333334", which is rounded up'),
            (float("nan"), "must be finite"),
            (float("inf"), "must be finite"),
            (np.float64("-inf"), "must be finite"),
            (Decimal("NaN"), "must be finite"),
            (Decimal("sNaN"), "must be finite"),
            (Decimal("Infinity"), "must be finite"),
            (-1, "must be 0 or more"),
            (-0.5, "must be 0 or more"),
            (Decimal("-1e999999"), "must be 0 or more"),
            (10**9 + 1, "must be 0 or between 1e-40 and 1e9"),
            (10**5000, "1e-40 and 1e9, got a value of type int"),
            (Fraction(10**5000, 3), "must be 0 or between 1e-40 and 1e9"),
            (Decimal("1e999999"), "must be 0 or between 1e-40 and 1e9"),
            (Decimal("1e-999999"), "must be 0 or between 1e-40 and 1e9"),
            (5e-324, "must be 0 or between 1e-40 and 1e9"),
            (1e300, "must be 0 or between 1e-40 and 1e9"),
            (True, "must be a number or its text"),
            (np.True_, "must be a number or its text"),
            (None, "must be a number or its text"),
            (1j, "must be a number or its text"),
            (b"1", "must be a number or its text"),
            ([0.5], "must be a number or its text"),
            (np.array(0.5), r"must be a number or its text.*give array.item\(\)"),
            (np.array([0.5]), "must be a number or its text"),
        ],
    )


numbers: st.SearchStrategy[Any] = st.one_of(
    st.integers(min_value=0, max_value=10**9),
    st.floats(min_value=0, max_value=1e9),
    st.floats(min_value=0, max_value=1e9, width=32).map(np.float32),
    st.decimals(min_value=0, max_value=10**9, allow_nan=False, places=30),
    st.fractions(min_value=0, max_value=10**9),
    st.integers(min_value=0, max_value=2**40).map(lambda n: n / 2**20),
)


@given(numbers, st.booleans())
def test_an_amount_is_its_number_exactly_and_a_proposal_is_on_the_safe_side(
    value: Any, up: bool
) -> None:
    exact = Fraction(*value.as_integer_ratio())
    try:
        found = text_of(value, up=up)
    except RequestInvalid as error:
        proposed = re.search(r'write "(.*?)"', error.rule)
        if proposed is None:
            assert exact * UNIT < 1
        elif isinstance(value, Decimal | Fraction):
            difference = Fraction(parse(proposed[1], field="x")) - exact
            assert difference > 0 if up else difference < 0
        else:  # what the float prints as, so what was typed
            assert type(value)(proposed[1]) == value
    else:
        assert Fraction(parse(found, field="x")) == exact


@pytest.mark.parametrize("value", [3, 3.0, np.int64(3), np.float32(3), Decimal(3), Fraction(3)])
def test_a_whole_number_of_any_type_becomes_an_integer(value: object) -> None:
    found = whole_number(value, field="times")
    assert found == 3
    assert type(found) is int


def test_a_number_that_is_not_whole_is_refused() -> None:
    def check_case(value: object) -> None:
        with pytest.raises(RequestInvalid, match=r"times must be (a whole number|finite)"):
            whole_number(value, field="times")

    check_each(
        check_case,
        [2.5, True, "3", None, float("nan"), float("inf"), Decimal("1e999999"), Fraction(10**5000)],
    )
