"""Amounts between two units of 1e-40, so that thirds and ninths add up to the whole.

A third of a budget has no decimal: rounded up, three of them exceed it. So a unit has `PARTS`
parts, a fixed number that many denominators divide, and an amount of whole parts is kept exactly.
A sum of such amounts is one again, whatever is added, so no denominator ever grows.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

MAX_DIGITS: Final = 2
"""Every whole number of so many digits, but for its factors 2 and 5, divides `PARTS`, and so does
its square: that of a Gaussian's standard deviation."""


def _parts() -> int:
    common = math.lcm(*range(1, 10**MAX_DIGITS))
    for factor in (2, 5):
        while common % factor == 0:
            common //= factor
    return common**2


PARTS: Final = _parts()
"""The parts of one unit of 1e-40: 3^8 7^4 11^2 13^2 ... 97^2, a number of 76 digits."""

_EXCESS: Final = re.compile(r"([1-9][0-9]{0,75})/([1-9][0-9]{0,75})")
EXCESS_PATTERN: Final = _EXCESS.pattern


class Fractional(int):
    """A non-negative amount that is no whole number of units: an int is that amount rounded up.

    So whatever takes it for a plain int errs on the safe side: filters compare it with a budget,
    which is whole, and a sum fits if and only if it fits rounded up. Sums, differences, multiples
    and quotients are exact, and a plain int where they are whole; `<` and its kin compare what is
    rounded up, `==` what is exact.

    Attributes:
        over: how far the amount rounded up exceeds it, in parts, 0 < over < `PARTS`.
    """

    over: int

    def __add__(self, other: Any) -> Any:
        units = int.__add__(self, other)
        if type(other) is not Fractional:
            return units if units is NotImplemented else _make(units, self.over)
        over = self.over + other.over
        return _make(units, over) if over < PARTS else _make(units - 1, over - PARTS)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        units = int.__sub__(self, other)
        if type(other) is not Fractional:
            return units if units is NotImplemented else _make(units, self.over)
        over = self.over - other.over
        return _make(units, over) if over >= 0 else _make(units + 1, over + PARTS)

    def __rsub__(self, other: Any) -> Any:
        units = int.__rsub__(self, other)
        return units if units is NotImplemented else _make(units + 1, PARTS - self.over)

    def __mul__(self, other: Any) -> Any:
        if type(other) is Fractional:
            return NotImplemented
        units = int.__mul__(self, other)
        if units is NotImplemented:
            return units
        whole, over = divmod(self.over * other, PARTS)
        return _make(units - whole, over)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        return self.parts // parts_of(other) if isinstance(other, int) else NotImplemented

    def __rfloordiv__(self, other: Any) -> Any:
        return parts_of(other) // self.parts if isinstance(other, int) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return type(other) is Fractional and self.over == other.over and int(self) == int(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((int(self), self.over))

    @property
    def parts(self) -> int:
        """The amount in parts of a unit."""
        return int(self) * PARTS - self.over


def amount_of(parts: int) -> int:
    """Return the amount of so many parts of a unit."""
    units = -(-parts // PARTS)
    return _make(units, units * PARTS - parts)


def parts_of(amount: int) -> int:
    """Return an amount in parts of a unit."""
    return amount.parts if type(amount) is Fractional else amount * PARTS


def whole_parts(scaled: Fraction) -> int | None:
    """Return an amount in units as one of whole parts, None if it is no such amount."""
    more, rest = divmod(PARTS, scaled.denominator)
    return None if rest else amount_of(scaled.numerator * more)


def whole_up(amount: int) -> int:
    """Return the amount rounded up to units, a plain int."""
    return int(amount)


def whole_down(amount: int) -> int:
    """Return the amount rounded down to units, a plain int."""
    return int(amount) - 1 if type(amount) is Fractional else amount


def round_up_amounts(amounts: tuple[int | float, ...]) -> tuple[int | float, ...]:
    """Return amounts as they are written, rounded up to units: plain ints, and what is infinite."""
    return tuple([int(a) if type(a) is Fractional else a for a in amounts])


def excess_text(amount: Fractional) -> str:
    """Return how far the amount rounded up exceeds it, in units: `2/3`."""
    return _in_lowest_terms(amount.over)


@lru_cache(maxsize=16_384)
def _in_lowest_terms(over: int) -> str:
    common = math.gcd(over, PARTS)
    return f"{over // common}/{PARTS // common}"


def less_excess(units: int, text: str) -> int:
    """Return the amount that exceeds by `text`, rounded up, is `units`.

    Raises: ValueError: `text` is not of the form that `excess_text` gives.
    """
    found = _EXCESS.fullmatch(text)
    excess = Fraction(int(found[1]), int(found[2])) if found else Fraction(0)
    if not 0 < excess < 1 or PARTS % excess.denominator or str(excess) != text:
        raise ValueError(f"not a part of a unit: {text[:80]}")
    return _make(units, excess.numerator * (PARTS // excess.denominator))


def _make(units: int, over: int) -> int:
    if not over:
        return units
    fraction = int.__new__(Fractional, units)
    fraction.over = over
    return fraction
