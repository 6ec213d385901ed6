"""Pure claims fixed in advance, and the sums on which their compositions depend."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction

from accountant.amounts import above, precise
from accountant.conversions.mean_loss import mean_loss
from accountant.conversions.zcdp import pure_rho

Runs = Iterable[tuple[Decimal, int]]
"""Each epsilon in nats with its number of mechanisms."""


def variance(runs: Runs) -> Fraction:
    """Return V = sum of epsilon^2, exactly, in nats^2."""
    return sum((Fraction(epsilon) ** 2 * count for epsilon, count in runs), Fraction(0))


def tight_mean(runs: Runs) -> Fraction:
    """Return the sum of epsilon tanh(epsilon/2), the mean loss of RR, rounded up."""
    return sum((Fraction(pure_rho(Fraction(e))) * count for e, count in runs), Fraction(0))


def printed_mean(runs: Runs) -> Fraction:
    """Return the sum of epsilon (e^epsilon - 1)/2, rounded up."""
    return sum((Fraction(mean_loss(Fraction(e))) * count for e, count in runs), Fraction(0))


def decimal_above(value: Fraction) -> Decimal:
    """Return the value to 50 digits, rounded up."""
    with precise():
        return above(Decimal(value.numerator) / Decimal(value.denominator), digits=50)


def log_inverse(delta: Decimal) -> Decimal:
    """Return ln(1/delta) to 60 digits.

    Raises: ValueError: delta is not in (0, 1).
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta must be above 0 and below 1, got {delta}")
    with precise():
        return -delta.ln()
