"""Amounts: exact decimals on the wire, integers in units of 1e-40 inside.

A sum of integers is exact, free of order and equal on every machine. An amount that
a claim cannot bound is `INFINITE`, a float: it absorbs every integer added to it and
fits no budget.
"""

from __future__ import annotations

import math
import re
from contextlib import AbstractContextManager
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from typing import Final

from accountant.errors import RequestInvalid

Units = int | float
"""A non-negative amount in units of 1e-40, or `INFINITE`."""

DIGITS: Final = 40
UNIT: Final = 10**DIGITS
INFINITE: Final = math.inf

_WIRE = re.compile(r"(?:0|[1-9][0-9]{0,8})(?:\.[0-9]{1,40})?(?:e-?[0-9]{1,2})?")
_MAX_CHARACTERS = 64
SMALLEST: Final = Decimal("1e-40")
LARGEST: Final = Decimal("1e9")

# Sixty digits leave every transcendental cost correct to far beyond one unit, and libmpdec
# rounds exp, ln and sqrt correctly, so all machines compute the same cost.
CONTEXT: Final = Context(prec=60, Emin=-999_999, Emax=999_999)
# Costs that are no short decimal keep this many digits: looseness at most 1e-19 relative.
_KEPT_DIGITS = 20


def parse(text: str, *, field: str) -> Decimal:
    """Return the exact value of a wire decimal.

    Raises: RequestInvalid: not of the form `0`, `1`, `0.05`, `1e-6`; longer than 64
        characters; or neither 0 nor between 1e-40 and 1e9.
    """
    if len(text) > _MAX_CHARACTERS or _WIRE.fullmatch(text) is None:
        raise RequestInvalid(field, "must be a plain decimal such as 0.05 or 1e-6", text)
    value = Decimal(text)
    if value and not SMALLEST <= value <= LARGEST:
        raise RequestInvalid(field, "must be 0 or between 1e-40 and 1e9", text)
    return value


def parse_in(text: str, *, field: str, least: Decimal, most: Decimal, zero: bool) -> Decimal:
    """Return a wire decimal within [least, most], or 0 where `zero` allows it."""
    value = parse(text, field=field)
    if not (least <= value <= most or (zero and not value)):
        rule = f"must be {'0 or ' if zero else ''}between {least} and {most}"
        raise RequestInvalid(field, rule, text)
    return value


def units_up(value: Decimal | Fraction) -> int:
    """Return a cost on the grid, rounded up to the next 1e-40."""
    return math.ceil(Fraction(value) * UNIT)


def units_down(value: Decimal | Fraction) -> int:
    """Return a budget on the grid, rounded down to the last 1e-40."""
    return math.floor(Fraction(value) * UNIT)


def cost_up(value: Decimal | Fraction) -> int:
    """Return a cost on the grid, rounded up: exactly where it is a decimal of the grid.

    Other costs keep 20 significant digits, so that records stay short; they are at most
    1e-19 relative (or 1e-40) above `value`.
    """
    scaled = Fraction(value) * UNIT
    if scaled.denominator == 1:
        return scaled.numerator
    units = math.ceil(scaled)
    step = _step(units)
    return -(-units // step) * step


def budget_down(value: Decimal | Fraction) -> int:
    """Return a budget on the grid, rounded down as `cost_up` rounds up."""
    scaled = Fraction(value) * UNIT
    if scaled.denominator == 1:
        return scaled.numerator
    units = math.floor(scaled)
    step = _step(units)
    return units // step * step


def _step(units: int) -> int:
    return int(10 ** max(0, len(str(units)) - _KEPT_DIGITS))


def format_units(units: Units) -> str:
    """Return the exact decimal of an amount: `0.00125`, `0`, or `inf`."""
    if not units:
        return "0"
    if isinstance(units, float):
        return "inf"
    if units < UNIT:
        # In half the time of the format `040d`.
        return ("0." + str(units).zfill(DIGITS)).rstrip("0")
    text = str(units)
    fraction = text[-DIGITS:].rstrip("0")
    return f"{text[:-DIGITS]}.{fraction}" if fraction else text[:-DIGITS]


def parse_units(text: str) -> Units:
    """Return the amount that `format_units` wrote.

    Raises: ValueError: not such an amount; the text comes from our own log.
    """
    if text == "inf":
        return INFINITE
    whole, _, fraction = text.partition(".")
    if not (whole.isascii() and whole.isdigit() and len(fraction) <= DIGITS):
        raise ValueError(f"not an amount: {text[:80]}")
    return int(whole) * UNIT + (int(fraction.ljust(DIGITS, "0")) if fraction else 0)


def to_float_up(units: Units) -> float:
    """Return the amount as a float that is not below it."""
    # True division of integers rounds to nearest; one step up is then never below.
    return math.nextafter(units / UNIT, math.inf) if units else 0.0


def precise() -> AbstractContextManager[Context]:
    """Return a block within which Decimal operators work to 60 digits."""
    return localcontext(CONTEXT)


def above(value: Decimal, *, digits: int) -> Decimal:
    """Return a bound above a result that is correct to `digits` significant digits."""
    with precise() as context:
        context.rounding = ROUND_CEILING
        return value + abs(value).scaleb(-digits)


def below(value: Decimal, *, digits: int) -> Decimal:
    """Return a bound below a result that is correct to `digits` significant digits."""
    with precise() as context:
        context.rounding = ROUND_FLOOR
        return value - abs(value).scaleb(-digits)
