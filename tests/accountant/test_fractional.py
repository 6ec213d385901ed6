"""Amounts between two units add up as fractions do, and are written so that they can be read."""

from __future__ import annotations

import math
import operator
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accountant.amounts import (
    INFINITE,
    UNIT,
    cost_up,
    exact_cost,
    format_units,
    parse_units,
)
from accountant.fractional import (
    MAX_DIGITS,
    PARTS,
    Fractional,
    amount_of,
    excess_text,
    less_excess,
    parts_of,
    round_up_amounts,
    whole_down,
    whole_parts,
    whole_up,
)
from tests.every_case import check_each

THIRD = exact_cost(Fraction(1, 3))
amounts = st.one_of(
    st.integers(0, 10**45),
    st.integers(0, 10**120).map(amount_of),
    st.builds(
        lambda top, bottom: exact_cost(Fraction(top, bottom)),
        st.integers(0, 10**6),
        st.integers(1, 99),
    ),
)


def exact(amount: int) -> Fraction:
    return Fraction(parts_of(amount), PARTS)


def test_thirds_add_up_to_the_whole() -> None:
    assert isinstance(THIRD, Fractional)
    assert THIRD + THIRD + THIRD == sum([THIRD] * 3) == 3 * THIRD == THIRD * 3 == UNIT
    assert type(3 * THIRD) is int
    assert format_units(THIRD) == "0.3333333333333333333333333333333333333334"
    assert excess_text(THIRD) == "2/3"
    assert UNIT // THIRD == 3


def test_fractions_with_denominators_of_two_digits_are_exact() -> None:
    assert MAX_DIGITS == 2
    for bottom in range(1, 10**MAX_DIGITS):
        assert exact(exact_cost(Fraction(1, bottom))) == Fraction(UNIT, bottom)
        assert exact(exact_cost(Fraction(1, 2 * bottom**2))) == Fraction(UNIT, 2 * bottom**2)


def test_other_fractions_are_rounded_up_to_20_digits() -> None:
    for bottom in (101, 103**2, 10**39 + 3):
        assert exact_cost(Fraction(1, bottom)) == cost_up(Fraction(1, bottom))
        assert type(exact_cost(Fraction(1, bottom))) is int
    assert whole_parts(Fraction(1, 101)) is None


@given(amounts, amounts)
def test_sums_and_differences_are_exact(a: int, b: int) -> None:
    for calculate in (operator.add, operator.sub):
        found = calculate(a, b)
        assert exact(found) == calculate(exact(a), exact(b))
        assert isinstance(found, Fractional) == (exact(found).denominator > 1)
        assert whole_up(found) == math.ceil(exact(found))
        assert whole_down(found) == math.floor(exact(found))


@given(amounts, st.integers(0, 10**9), st.integers(1, 10**50))
def test_multiples_and_quotients_are_exact(a: int, times: int, other: int) -> None:
    assert exact(a * times) == exact(times * a) == exact(a) * times
    assert a // other == exact(a) // other
    if a:
        assert other // a == Fraction(other) // exact(a)


@given(amounts, st.integers(0, 10**45))
def test_an_amount_fits_a_whole_budget_exactly_if_its_fraction_does(a: int, budget: int) -> None:
    assert (a <= budget) == (exact(a) <= budget)
    assert (a > budget) == (exact(a) > budget)


@given(amounts, amounts)
def test_equal_amounts_are_equal_and_no_others(a: int, b: int) -> None:
    assert (a == b) == (exact(a) == exact(b))
    assert (a != b) == (exact(a) != exact(b))
    if a == b:
        assert hash(a) == hash(b)


def test_amounts_that_round_up_to_the_same_text_differ() -> None:
    other = THIRD + exact_cost(Fraction(1, 3 * 10**40))
    assert whole_up(other) == whole_up(THIRD)
    assert other != THIRD
    assert whole_up(THIRD) != THIRD


def test_an_infinite_amount_stays_infinite() -> None:
    assert THIRD + INFINITE == INFINITE + THIRD == INFINITE
    assert INFINITE - THIRD == INFINITE
    assert not INFINITE <= THIRD


def test_two_fractions_are_not_multiplied() -> None:
    with pytest.raises(TypeError):
        THIRD * THIRD


@given(amounts)
def test_an_amount_and_its_excess_survive_writing_and_parsing(a: int) -> None:
    text = format_units(a)
    assert Fraction(text) * UNIT == math.ceil(exact(a))
    assert round_up_amounts((a, INFINITE)) == (math.ceil(exact(a)), INFINITE)
    assert type(round_up_amounts((a,))[0]) is int
    read = parse_units(text)
    assert isinstance(read, int)
    assert (less_excess(read, excess_text(a)) if isinstance(a, Fractional) else read) == a


@given(amounts)
def test_the_excess_text_of_an_amount_has_at_most_153_characters(a: int) -> None:
    if isinstance(a, Fractional):
        assert len(excess_text(a)) <= 2 * len(str(PARTS)) + 1
        assert Fraction(excess_text(a)) == math.ceil(exact(a)) - exact(a)


def test_no_other_text_is_read_as_an_excess() -> None:
    def check_case(text: str) -> None:
        with pytest.raises(ValueError, match="not a part of a unit"):
            less_excess(5, text)

    check_each(
        check_case,
        [
            "",
            "1",
            "0/3",
            "3/3",
            "4/3",
            "2/6",
            "1/101",
            "-1/3",
            "1/3 ",
            "01/3",
            "1/03",
            "a/b",
            "1/0",
        ],
    )
