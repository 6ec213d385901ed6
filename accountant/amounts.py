"""Amounts: exact decimals on the wire, integers in units of 1e-40 in memory.

A sum of integers is exact, and it is the same in any order and on every machine. What lies
between two units may be a `Fractional`, whose sums are exact, too. An amount that a claim does
not bound is `INFINITE`, a float: the sum of it and any integer is `INFINITE`, and no budget holds
it.
"""

from __future__ import annotations

import math
import re
from contextlib import AbstractContextManager
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from functools import partial
from typing import Final

from accountant.errors import RequestInvalid
from accountant.fractional import whole_parts
from accountant.values_to_write import decimal_to_write, part_to_write

Units = int | float
"""A non-negative amount in units of 1e-40, a `Fractional` where it is no whole number of them, or
`INFINITE`."""

DIGITS: Final = 40
UNIT: Final = 10**DIGITS
INFINITE: Final = math.inf

_WIRE = re.compile(r"(?:0|[1-9][0-9]{0,8})(?:\.[0-9]{1,40})?(?:e-?[0-9]{1,2})?")
_MAX_CHARACTERS = 64
WIRE_PATTERN: Final = _WIRE.pattern
SMALLEST: Final = Decimal("1e-40")
LARGEST: Final = Decimal("1e9")

# With sixty digits the error of exp, ln and sqrt is far below one unit, and libmpdec rounds
# these functions correctly, so all machines compute the same cost.
CONTEXT: Final = Context(prec=60, Emin=-999_999, Emax=999_999)
# A cost that is not a multiple of 1e-40 keeps this many digits, which rounds it up by at most
# 1e-19 of it.
_KEPT_DIGITS = 20


def parse(text: str, *, field: str) -> Decimal:
    """Return the exact value of a wire decimal.

    Raises: RequestInvalid: not of the form `0`, `1`, `0.05`, `1e-6`; longer than 64
        characters; or neither 0 nor between 1e-40 and 1e9.
    """
    if not is_wire(text):
        rule = "must be a plain decimal without a sign, such as 0.05 or 1e-6"
        raise RequestInvalid(field, rule, text, hint=partial(decimal_to_write, text))
    value = Decimal(text)
    if value and not SMALLEST <= value <= LARGEST:
        raise RequestInvalid(field, "must be 0 or between 1e-40 and 1e9", text)
    return value


def parse_part(text: str, *, field: str) -> Decimal:
    """Return the exact value of a part of something, as `parse`; any error says how to write it.

    Raises: RequestInvalid.
    """
    try:
        return parse(text, field=field)
    except RequestInvalid as error:
        hint = partial(part_to_write, text)
        raise RequestInvalid(field, error.rule, text, hint=hint) from None


def is_wire(text: str) -> bool:
    """Tell whether a text has the form of a wire decimal, whatever its value."""
    return len(text) <= _MAX_CHARACTERS and _WIRE.fullmatch(text) is not None


def parse_in(text: str, *, field: str, minimum: Decimal, maximum: Decimal, zero: bool) -> Decimal:
    """Return a wire decimal within [least, most], or 0 where `zero` allows it."""
    value = parse(text, field=field)
    if not (minimum <= value <= maximum or (zero and not value)):
        rule = f"must be {'0 or ' if zero else ''}between {minimum} and {maximum}"
        raise RequestInvalid(field, rule, text)
    return value


def units_up(value: Decimal | Fraction) -> int:
    """Return a cost in units of 1e-40, rounded up."""
    return math.ceil(Fraction(value) * UNIT)


def units_down(value: Decimal | Fraction) -> int:
    """Return a budget in units of 1e-40, rounded down."""
    return math.floor(Fraction(value) * UNIT)


def cost_up(value: Decimal | Fraction) -> int:
    """Return a cost in units of 1e-40, rounded up; a multiple of 1e-40 stays exact.

    Other costs keep 20 significant digits, so that records stay short. They exceed `value` by
    at most 1e-19 of it, or by 1e-40.
    """
    scaled = Fraction(value) * UNIT
    if scaled.denominator == 1:
        return scaled.numerator
    units = math.ceil(scaled)
    step = _step(units)
    return -(-units // step) * step


def exact_cost(value: Decimal | Fraction) -> int:
    """Return a cost in units of 1e-40: exact if it is whole parts of one, else as `cost_up`."""
    scaled = Fraction(value) * UNIT
    if scaled.denominator == 1:
        return scaled.numerator
    exact = whole_parts(scaled)
    return cost_up(value) if exact is None else exact


def budget_down(value: Decimal | Fraction) -> int:
    """Return a budget in units of 1e-40, rounded down to the same digits as in `cost_up`."""
    scaled = Fraction(value) * UNIT
    if scaled.denominator == 1:
        return scaled.numerator
    units = math.floor(scaled)
    step = _step(units)
    return units // step * step


def _step(units: int) -> int:
    return int(10 ** max(0, len(str(units)) - _KEPT_DIGITS))


def format_units(units: Units) -> str:
    """Return the decimal of an amount, `0.00125`, `0`, or `inf`: exact, or rounded up to a unit."""
    if not units:
        return "0"
    if isinstance(units, float):
        return "inf"
    if units < UNIT:
        # `zfill` takes half the time of the format `040d`.
        return ("0." + str(units).zfill(DIGITS)).rstrip("0")
    text = str(units)
    fraction = text[-DIGITS:].rstrip("0")
    return f"{text[:-DIGITS]}.{fraction}" if fraction else text[:-DIGITS]


def parse_units(text: str) -> Units:
    """Return the amount that `format_units` wrote.

    Raises: ValueError: not such an amount; the text comes from our own log.
    """
    if text == "0":
        return 0  # at once: most grants spend no delta
    if text == "inf":
        return INFINITE
    whole, _, fraction = text.partition(".")
    if not (whole.isascii() and whole.isdigit() and len(fraction) <= DIGITS):
        raise ValueError(f"not an amount: {text[:80]}")
    return int(whole + fraction.ljust(DIGITS, "0")) if fraction else int(whole) * UNIT


def format_signed(units: Units) -> str:
    """Return the decimal of an amount that may be below 0, as `format_units`."""
    return f"-{format_units(-units)}" if units < 0 else format_units(units)


def parse_signed(text: str) -> Units:
    """Return the amount that `format_signed` wrote.

    Raises: ValueError: not such an amount.
    """
    return -parse_units(text[1:]) if text.startswith("-") else parse_units(text)


def to_float_up(units: Units) -> float:
    """Return the amount as a float, rounded up."""
    # Division of integers rounds to the nearest float; the next float is never below the amount.
    return math.nextafter(units / UNIT, math.inf) if units else 0.0


def part_up(part: Units, whole: Units) -> float:
    """Return which part of a whole an amount is, rounded up, in [0, 1]; of nothing, all."""
    if not part:
        return 0.0
    return min(1.0, math.nextafter(part / whole, 1.0)) if whole else 1.0


def ratio_between(lower: float, upper: float) -> float:
    """Return the difference of two ratios, without the last digits, in which floats are off."""
    return max(0.0, round(upper - lower, 12))


def precise() -> AbstractContextManager[Context]:
    """Return a context manager within which Decimal operators keep 60 digits."""
    return localcontext(CONTEXT)


def above(value: Decimal, *, digits: int) -> Decimal:
    """Return an upper bound on the exact result, given one correct to `digits` digits."""
    with precise() as context:
        context.rounding = ROUND_CEILING
        return value + abs(value).scaleb(-digits)


def below(value: Decimal, *, digits: int) -> Decimal:
    """Return a lower bound on the exact result, given one correct to `digits` digits."""
    with precise() as context:
        context.rounding = ROUND_FLOOR
        return value - abs(value).scaleb(-digits)


def round_digits_up(value: Decimal, *, digits: int) -> Decimal:
    """Return an amount with few significant digits, never less than it is."""
    return Context(prec=digits, rounding=ROUND_CEILING).plus(value)
