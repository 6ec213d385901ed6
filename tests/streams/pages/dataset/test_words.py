"""Amounts are rounded to the safe side, and a percentage never says what is not so."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.pages.words import (
    cut,
    from_now,
    joined,
    left_percent,
    moment,
    part_of,
    period,
    ratio_text,
    short,
    used_percent,
    whose,
)
from tests.streams.pages.dataset.shown_views import NOW


@pytest.mark.parametrize(
    ("text", "up", "down"),
    [
        ("0", "0", "0"),
        ("1", "1", "1"),
        ("0.1", "0.1", "0.1"),
        ("0.123456", "0.1235", "0.1234"),
        ("1234567", "1235000", "1234000"),
        ("0.00000123456", "1.235e-6", "1.234e-6"),
        ("1e-40", "1e-40", "1e-40"),
        ("999999999", "1e9", "9.999e8"),
        ("inf", "∞", "∞"),
    ],
)
def test_an_amount_has_four_digits_rounded_outward(text: str, up: str, down: str) -> None:
    assert short(text, up=True) == up
    assert short(text, up=False) == down


@given(st.decimals(Decimal("1e-39"), Decimal("1e9"), allow_nan=False, allow_infinity=False))
def test_a_short_amount_lies_on_its_side(value: Decimal) -> None:
    text = f"{value:f}"
    assert Decimal(short(text, up=False)) <= value <= Decimal(short(text, up=True))


@pytest.mark.parametrize(
    ("ratio", "used", "left"),
    [
        (0.0, "0 %", "0 %"),
        (1e-9, "0.1 %", "less than 0.1 %"),
        (0.1, "10 %", "10 %"),
        (0.12345, "12.4 %", "12.3 %"),
        (0.9999, "over 99.9 %", "99.9 %"),
        (1.0, "100 %", "100 %"),
    ],
)
def test_all_is_said_of_all_alone(ratio: float, used: str, left: str) -> None:
    assert used_percent(ratio) == used
    assert left_percent(ratio) == left


def test_a_part_is_within_its_bounds() -> None:
    assert part_of("0.25", "1") == 0.25
    assert part_of("2", "1") == 1
    assert part_of("inf", "1") == 1
    assert part_of("0", "0") == 1


def test_times_are_read_in_utc() -> None:
    assert moment("2026-02-03T04:05:06.007Z").text == "3 Feb 2026, 04:05 UTC"


@pytest.mark.parametrize(
    ("iso", "said"),
    [
        ("2026-11-21T12:00:00.000Z", ""),
        ("2026-11-21T12:00:01.000Z", "in 1 minute"),
        ("2026-11-21T13:59:00.000Z", "in 119 minutes"),
        ("2026-11-21T17:00:00.001Z", "in 6 hours"),
        ("2026-12-21T12:00:00.000Z", "in 30 days"),
    ],
)
def test_how_long_it_is_until_then_is_rounded_up(iso: str, said: str) -> None:
    assert from_now(iso, NOW) == said


def test_owners_words_are_exact() -> None:
    assert ratio_text("0.2") == "20 %"
    assert ratio_text("0.00125") == "0.125 %"
    assert ratio_text("1") == "100 %"
    assert period("P1D") == "day"
    assert period("P30D") == "30 days"


def test_sums_have_their_signs() -> None:
    assert joined({"rho": "0.5", "loss_epsilon": "2"}, up=True) == "ρ 0.5, loss epsilon 2"
    assert joined(None, up=True) == ""


def test_whom_a_limit_holds_for() -> None:
    assert whose("each", "red") == "Each analyst of team red"
    assert whose("dataset", None, inside=True) == "the whole dataset"


def test_long_texts_are_cut() -> None:
    assert cut("x" * 300) == "x" * 300
    assert cut("x" * 301) == "x" * 300 + "…"
