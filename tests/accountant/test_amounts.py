from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accountant.amounts import (
    INFINITE,
    UNIT,
    budget_down,
    cost_up,
    format_units,
    parse,
    parse_units,
    to_float_up,
    units_down,
    units_up,
)
from accountant.errors import RequestInvalid
from tests.every_case import check_each

FRACTIONS = st.fractions(min_value=0, max_value=10**9)
UNITS = st.one_of(st.integers(0, 10**60), st.integers(0, 1000))


@given(FRACTIONS)
def test_costs_round_up_and_budgets_down(value: Fraction) -> None:
    loose = Fraction(1, 10**19)
    grid = Fraction(1, UNIT)
    assert value <= Fraction(units_up(value), UNIT) < value + grid
    assert value - grid < Fraction(units_down(value), UNIT) <= value
    assert value <= Fraction(cost_up(value), UNIT) <= value * (1 + loose) + grid
    assert value * (1 - loose) - grid <= Fraction(budget_down(value), UNIT) <= value


@given(st.decimals(0, 10**9, places=40))
def test_decimals_of_the_grid_are_exact(value: Decimal) -> None:
    exact = Fraction(value) * UNIT
    assert units_up(value) == units_down(value) == cost_up(value) == budget_down(value) == exact


@given(UNITS)
def test_an_amount_reads_back(units: int) -> None:
    text = format_units(units)
    assert parse_units(text) == units
    assert Fraction(text) * UNIT == units


@given(UNITS)
def test_an_amount_as_a_float_is_rounded_up(units: int) -> None:
    value = to_float_up(units)
    assert Fraction(value) >= Fraction(units, UNIT)
    assert value <= float(Fraction(units, UNIT)) * (1 + 1e-15)


def test_infinity_stays_infinite() -> None:
    assert format_units(INFINITE) == "inf"
    assert parse_units("inf") == INFINITE
    assert INFINITE + UNIT == INFINITE
    assert to_float_up(INFINITE) == math.inf


def test_an_amount_of_another_form_is_no_amount() -> None:
    def check_case(text: str) -> None:
        with pytest.raises(ValueError, match=r"amount|invalid literal"):
            parse_units(text)

    check_each(check_case, ["", "x", "-1", "1e5", "0." + "1" * 41, "nan", " 1", "١"])


@given(st.text(max_size=20))
def test_a_wire_decimal_is_read_exactly_or_refused(text: str) -> None:
    try:
        value = parse(text, field="x")
    except RequestInvalid:
        return
    assert value == Decimal(text)
    assert not value or Decimal("1e-40") <= value <= Decimal("1e9")


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-40", "1e-40"), ("1e9", "1e9"), ("0e99", "0"), ("999999999.5", "999999999.5")],
)
def test_the_ends_of_the_range_are_taken(text: str, value: str) -> None:
    assert parse(text, field="x") == Decimal(value)
