"""Decimal arithmetic for Renyi curves: exponents without overflow, differences without loss.

Moments of order alpha hold e^(alpha epsilon), and near 1 where a mechanism gives little
away. Exponents of 18 digits hold the first; `log1p` and `expm1`, correct to the last digits
of the context, the second.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from typing import Final

Real = Fraction | Decimal
"""An exact number."""

DIGITS: Final = 40
"""Digits that results are computed to, before `up` or `down`."""

_SURE: Final = 30  # of them, each result is at least correct to these


def working(guard: int = 0) -> AbstractContextManager[Context]:
    """Return a block that works to `DIGITS` digits and `guard` more, and never overflows."""
    return localcontext(Context(prec=DIGITS + guard, Emax=MAX_EMAX, Emin=MIN_EMIN))


def lost(value: Real) -> int:
    """Return how many digits are lost where a number near 1 differs from it by `value`."""
    return max(0, -magnitude(value))


def magnitude(value: Real) -> int:
    """Return the power of ten of a number's first digit; 0 for 0."""
    with working():
        decimal = exact_or_up(value)
        return decimal.adjusted() if decimal else 0


def exact_or_up(value: Real) -> Decimal:
    """Return the number as a decimal of the context's precision, not below it."""
    return _rounded(value, ROUND_CEILING)


def exact_or_down(value: Real) -> Decimal:
    """Return the number as a decimal of the context's precision, not above it."""
    return _rounded(value, ROUND_FLOOR)


def _rounded(value: Real, rounding: str) -> Decimal:
    if isinstance(value, Decimal):
        return value
    with localcontext() as context:
        context.rounding = rounding
        # A quotient of integers is rounded once, so in this direction.
        return Decimal(value.numerator) / Decimal(value.denominator)


def up(value: Decimal, *terms: Decimal) -> Decimal:
    """Return a bound above a result that was computed from `terms`, by default itself."""
    with localcontext() as context:
        context.rounding = ROUND_CEILING
        return value + _margin(value, terms)


def down(value: Decimal, *terms: Decimal) -> Decimal:
    """Return a bound below a result that was computed from `terms`, by default itself."""
    with localcontext() as context:
        context.rounding = ROUND_FLOOR
        return value - _margin(value, terms)


def _margin(value: Decimal, terms: tuple[Decimal, ...]) -> Decimal:
    return sum(map(abs, terms or (value,)), Decimal(0)).scaleb(-_SURE)


def log1p(x: Decimal) -> Decimal:
    """Return ln(1 + x), x > -1, to the context's digits however small x is."""
    with localcontext() as context:
        digits = context.prec
        if x.adjusted() < -digits:
            return +x  # the next term, x^2/2, is beyond the last digit
        # libmpdec rounds ln correctly, so all that may not be rounded is the sum. What x has
        # below its own first `digits` places does not count.
        context.prec = digits + 2 + lost(x)
        shifted = 1 + x
        context.prec = digits
        return shifted.ln()


def expm1(x: Decimal) -> Decimal:
    """Return e^x - 1 to the context's digits however small x is."""
    with localcontext() as context:
        digits = context.prec
        if x.adjusted() < -digits:
            return +x
        context.prec = digits + 2 + lost(x)
        difference = x.exp() - 1
        context.prec = digits
        return +difference
