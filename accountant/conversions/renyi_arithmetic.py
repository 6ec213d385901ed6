"""Decimal arithmetic for Renyi curves: exponents without overflow, differences without loss.

A moment of order alpha may be as large as e^(alpha epsilon), and it is near 1 for a mechanism
of little loss. Decimals with exponents of 18 digits hold large moments; `log1p` and `expm1`,
correct to the last digits of the context, keep the digits of those near 1.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from typing import Final

Real = Fraction | Decimal
"""An exact number."""

DIGITS: Final = 40
"""Digits of a result before `up` or `down`."""

_CORRECT_DIGITS: Final = 30  # of `DIGITS`: every result is correct to at least so many


def working(guard: int = 0) -> AbstractContextManager[Context]:
    """Return a context manager for `DIGITS` + `guard` digits, without overflow."""
    return localcontext(Context(prec=DIGITS + guard, Emax=MAX_EMAX, Emin=MIN_EMIN))


def cancelled_digits(value: Real) -> int:
    """Return how many digits the difference of 1 and 1 + `value` loses."""
    return max(0, -magnitude(value))


def magnitude(value: Real) -> int:
    """Return the power of ten of a number's first digit; 0 for 0."""
    with working():
        decimal = exact_or_up(value)
        return decimal.adjusted() if decimal else 0


def exact_or_up(value: Real) -> Decimal:
    """Return the number as a decimal; a fraction is rounded up to the context's precision."""
    return _round_once(value, ROUND_CEILING)


def exact_or_down(value: Real) -> Decimal:
    """Return the number as a decimal; a fraction is rounded down to the context's precision."""
    return _round_once(value, ROUND_FLOOR)


def _round_once(value: Real, rounding: str) -> Decimal:
    if isinstance(value, Decimal):
        return value
    with localcontext() as context:
        context.rounding = rounding
        # A quotient of integers is rounded only once, in the given direction.
        return Decimal(value.numerator) / Decimal(value.denominator)


def up(value: Decimal, *terms: Decimal) -> Decimal:
    """Return an upper bound on the exact result; `value` is computed as a sum of `terms`."""
    with localcontext() as context:
        context.rounding = ROUND_CEILING
        return value + _margin(value, terms)


def down(value: Decimal, *terms: Decimal) -> Decimal:
    """Return a lower bound on the exact result; `value` is computed as a sum of `terms`."""
    with localcontext() as context:
        context.rounding = ROUND_FLOOR
        return value - _margin(value, terms)


def _margin(value: Decimal, terms: tuple[Decimal, ...]) -> Decimal:
    return sum(map(abs, terms or (value,)), Decimal(0)).scaleb(-_CORRECT_DIGITS)


def log1p(x: Decimal) -> Decimal:
    """Return ln(1 + x), x > -1, to the context's digits however small x is."""
    with localcontext() as context:
        digits = context.prec
        if x.adjusted() < -digits:
            return +x  # the next term, x^2/2, is below the last digit
        # libmpdec rounds ln correctly, so only the sum needs more digits: enough to keep the
        # first `digits` digits of x.
        context.prec = digits + 2 + cancelled_digits(x)
        shifted = 1 + x
        context.prec = digits
        return shifted.ln()


def expm1(x: Decimal) -> Decimal:
    """Return e^x - 1 to the context's digits however small x is."""
    with localcontext() as context:
        digits = context.prec
        if x.adjusted() < -digits:
            return +x
        context.prec = digits + 2 + cancelled_digits(x)
        difference = x.exp() - 1
        context.prec = digits
        return +difference
