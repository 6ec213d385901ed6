"""Exact numbers, the log's amounts, and the permitted rounding between them.

docs/reference/records.md (amounts), docs/decisions/0012 (the grid of 1e-40, 20 digits, outward)
and 0054 (fractions of a unit).
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import mpmath

from tests.faults.oracle.disagreement import Disagreement

Real = Any
"""An `mpf` of `mp`; mpmath has no types."""
Exact = Any
"""A `Fraction`, an `mpf`, or `INFINITE`."""

mp: Final = mpmath.MPContext()
mp.dps = 60
"""An own context, independent of other tests' precision."""

INFINITE: Final = math.inf
UNIT: Final = 10**40
_PRIMES: Final = [p for p in range(3, 100, 2) if p != 5 and all(p % q for q in range(3, p, 2))]
PARTS: Final = math.prod(p ** (2 * max(k for k in range(1, 5) if p**k < 100)) for p in _PRIMES)
"""The grid of a unit: for each prime but 2 and 5, its largest power below 100, squared."""
SLACK: Final = Fraction(1, 10**19)
"""The permitted relative error of a cost above, and of a budget below, the exact value."""
_CORRECT: Final = Fraction(1, 10**35)
_KEPT: Final = 20
_AMOUNT: Final = re.compile(r"(0|[1-9][0-9]*)(\.[0-9]{1,40})?")

Range = tuple[Any, Any]
"""The least and the largest amount, in units: an int, a `Fraction`, or the float `INFINITE`."""


@lru_cache(maxsize=65_536)
def units(text: str) -> float:
    """Return an amount of the log in units of 1e-40; INFINITE for `inf`."""
    if text == "inf":
        return INFINITE
    if not isinstance(text, str) or _AMOUNT.fullmatch(text) is None:
        raise Disagreement("amount", text, "a plain decimal of at most 40 places")
    scaled = Fraction(text) * UNIT
    return int(scaled)


def as_text(amount: float) -> str:
    """Return an amount in units in the log's format."""
    if amount == INFINITE:
        return "inf"
    whole, part = divmod(int(amount), UNIT)
    return f"{whole}.{part:040d}".rstrip("0").rstrip(".")


def whole_up(amount: Any) -> Any:
    """Return an amount in the format of a total or a cost: whole units, rounded up."""
    return amount if amount == INFINITE else math.ceil(amount)


def whole_down(amount: Any) -> int:
    """Return an amount in the format of a remaining amount: whole units, rounded down."""
    return math.floor(amount)


def rounded_up(totals: dict[str, Any]) -> dict[str, str]:
    """Return the rounding of each total that is not a whole number of units."""
    over = {n: whole_up(t) - Fraction(t) for n, t in totals.items() if t != INFINITE}
    return {name: str(each) for name, each in over.items() if each}


def real(value: Exact) -> Real:
    """Return an exact number for mpmath."""
    if isinstance(value, str):
        value = Fraction(value)
    if isinstance(value, Fraction):
        return mp.mpf(value.numerator) / value.denominator
    return mp.mpf(value)


def fraction(value: Exact) -> Fraction:
    """Return a number exactly."""
    if isinstance(value, Fraction | int):
        return Fraction(value)
    sign, mantissa, exponent, _ = value._mpf_
    return (-1) ** sign * Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def kept_up(scaled: Fraction) -> int:
    """Return units rounded up to 20 digits; a whole number of units is unchanged."""
    if scaled.denominator == 1:
        return scaled.numerator
    whole = math.ceil(scaled)
    step = int(10 ** max(0, len(str(whole)) - _KEPT))
    return -(-whole // step) * step


def kept_down(scaled: Fraction) -> int:
    """Return units rounded down to 20 digits; a whole number of units is unchanged."""
    if scaled.denominator == 1:
        return scaled.numerator
    whole = math.floor(scaled)
    step = int(10 ** max(0, len(str(whole)) - _KEPT))
    return whole // step * step


def cost_range(exact: Exact, slack: Fraction = SLACK) -> Range:
    """Return the permitted range of a written cost: never below the exact one."""
    if exact == INFINITE:
        return INFINITE, INFINITE
    if isinstance(exact, Fraction):
        scaled = exact * UNIT
        only = kept_up(scaled) if PARTS % scaled.denominator else scaled
        return only, only
    scaled = fraction(exact) * UNIT
    most = max(kept_up(scaled * (1 + _CORRECT)), math.floor(scaled * (1 + slack)) + 1)
    return math.ceil(scaled * (1 - _CORRECT)), most


def is_kept(amount: float, low: float) -> bool:
    """Return whether a cost has 20 digits, or equals the exact one to 29 digits, up to the grid."""
    if INFINITE in (amount, low):
        return amount == low
    digits = len(str(int(amount)).rstrip("0"))
    return digits <= _KEPT or amount - low <= int(low) // 10**29 + 1


def budget_range(exact: Exact, slack: Fraction = SLACK) -> Range:
    """Return the permitted range of a written budget: never above the exact one."""
    if isinstance(exact, Fraction):
        only = kept_down(exact * UNIT)
        return only, only
    scaled = fraction(exact) * UNIT
    return min(kept_down(scaled * (1 - _CORRECT)), math.ceil(scaled * (1 - slack)) - 1), kept_down(
        scaled * (1 + _CORRECT)
    )
