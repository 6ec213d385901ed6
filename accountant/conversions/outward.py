"""Decimals of any precision: fractions rounded outward, and functions without cancellation."""

from __future__ import annotations

from contextlib import AbstractContextManager
from decimal import Context, Decimal, localcontext
from fractions import Fraction

from accountant.amounts import CONTEXT, precise

Real = Decimal | Fraction
"""An exact argument; all digits of a `Decimal` count."""


def working(digits: int) -> AbstractContextManager[Context]:
    """Return a context manager within which Decimal operators, exp, ln and sqrt keep `digits`.

    libmpdec rounds each of them correctly, so a result is the same on every machine.
    """
    return localcontext(CONTEXT, prec=digits)


def decimal_up(value: Real) -> Decimal:
    """Return a Decimal unchanged, a Fraction rounded up to at most 60 digits."""
    if isinstance(value, Decimal):
        return value
    with precise() as context:
        quotient = Decimal(value.numerator) / Decimal(value.denominator)
        return quotient if Fraction(quotient) >= value else context.next_plus(quotient)


def decimal_down(value: Real) -> Decimal:
    """Return a Decimal unchanged, a Fraction rounded down to at most 60 digits."""
    if isinstance(value, Decimal):
        return value
    with precise() as context:
        quotient = Decimal(value.numerator) / Decimal(value.denominator)
        return quotient if Fraction(quotient) <= value else context.next_minus(quotient)


def log1p(x: Decimal, *, digits: int) -> Decimal:
    """Return ln(1 + x), correct to `digits` significant digits, for x > -1."""
    small = -x.adjusted() if x else 0
    if small > digits:
        # The next term of the series, x^3/3, is below 10^(-2 digits) of it.
        with working(digits + 5):
            return x - x * x / 2
    with working(digits + max(0, small) + 5):
        return (1 + x).ln()


def expm1(x: Decimal, *, digits: int) -> Decimal:
    """Return e^x - 1, correct to `digits` significant digits."""
    small = -x.adjusted() if x else 0
    if small > digits:
        with working(digits + 5):
            return x + x * x / 2
    with working(digits + max(0, small) + 5):
        return x.exp() - 1


def log_probability(p: Decimal, *, digits: int) -> Decimal:
    """Return ln p, correct to `digits` significant digits also where p is near 1.

    Raises: ArithmeticError: p is not above 0 and at most 1.
    """
    if not 0 < p <= 1:
        raise ArithmeticError(f"a probability must be above 0 and at most 1, got {p}")
    if p < Decimal("0.5"):
        with working(digits + 5):
            return p.ln()
    with working(digits + len(p.as_tuple().digits)):
        less = p - 1  # exact: p is between 0.5 and 1, so p - 1 needs no more digits than p
    return log1p(less, digits=digits)
