"""Signed decimals of schemas and questions: exact, bounded, and each with one spelling."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Final

from accountant.errors import RequestInvalid

MAX_PLACES: Final = 12
"""Digits after the point."""
# No exponent, no zeros at the ends: a schema has one canonical form.
SIGNED_PATTERN: Final = rf"-?(?:0|[1-9][0-9]{{0,14}})(?:\.[0-9]{{0,{MAX_PLACES - 1}}}[1-9])?"
_SIGNED = re.compile(SIGNED_PATTERN)
_RATIONAL = re.compile(r"[0-9]{1,9}/[0-9]{1,9}|-?(?:[0-9]{1,15}|[0-9]{0,15}\.[0-9]{1,6})")
_WRITTEN_PLACES: Final = 6
_RULE: Final = (
    "must be a decimal such as -12.5, of at most 15 digits before the point and 12 after it, "
    "without zeros at its ends"
)


def parse_signed_decimal(text: str, *, field: str) -> Fraction:
    """Return the exact value of a signed decimal.

    Raises: RequestInvalid: another form, -0 included.
    """
    if _SIGNED.fullmatch(text) is None or text == "-0":
        raise RequestInvalid(field, _RULE, text, hint=lambda: number_to_write(text))
    return Fraction(text)


def number_to_write(text: str) -> str:
    """Return `write 0.333333` for a quotient such as 1/3 or a number such as .50, else ""."""
    if _RATIONAL.fullmatch(text) is None:
        return ""
    top, _, bottom = text.partition("/")
    if bottom and not int(bottom):
        return ""
    value = round(Fraction(top) / int(bottom or 1), _WRITTEN_PLACES)
    return f"write {decimal_text(value)}"


def decimal_text(value: Fraction, places: int = MAX_PLACES) -> str:
    """Return the canonical text of a value with at most `places` digits after the point."""
    scaled = value * 10**places
    assert scaled.denominator == 1, "only values of a declared grid are written"
    digits = str(abs(scaled.numerator)).zfill(places + 1)
    whole, part = digits[: len(digits) - places], digits[len(digits) - places :].rstrip("0")
    return ("-" if value < 0 else "") + whole + (f".{part}" if part else "")


def round_half_up(value: Fraction, grid: Fraction) -> Fraction:
    """Return the nearest multiple of `grid`; the larger one in the middle between two."""
    return math.floor(value / grid + Fraction(1, 2)) * grid
