"""The zCDP parameter rho of a mechanism, in nats, each rounded up."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from accountant.amounts import above, precise


def pure_rho(epsilon: Fraction) -> Decimal:
    """Return the least rho of every epsilon-DP mechanism: epsilon tanh(epsilon/2).

    Source: docs/theory.md P1; Steinke 2024 Thm 5.
    """
    with precise():
        x = decimal_up(epsilon)
        grown = x.exp()
        # tanh(x/2) = (e^x - 1)/(e^x + 1). The difference loses at most 12 of 60 digits,
        # since epsilon is 0 or at least 1e-12.
        return above(x * (grown - 1) / (grown + 1), digits=40)


def laplace_rho(epsilon: Fraction) -> Decimal:
    """Return the rho of Laplace noise, epsilon = sensitivity/scale: epsilon + e^-epsilon - 1.

    Source: docs/theory.md section 1.
    """
    with precise():
        x = decimal_up(epsilon)
        # About epsilon^2/2: the cancellation loses at most 25 of 60 digits.
        return above(x + (-x).exp() - 1, digits=30)


def bounded_range_rho(eta: Fraction) -> Fraction:
    """Return the rho of an eta-bounded-range mechanism: eta^2/8.

    Source: docs/theory.md section 1; the exponential mechanism has eta = epsilon.
    """
    return eta**2 / 8


def gaussian_rho(*, sigma: Fraction, sensitivity: Fraction) -> Fraction:
    """Return the exact rho of one Gaussian release.

    Args:
        sigma: noise standard deviation, in query units, > 0.
        sensitivity: l2 sensitivity, in query units, >= 0.
    Source: Bun and Steinke 2016, Prop 1.6.
    """
    return sensitivity**2 / (2 * sigma**2)


def decimal_up(value: Fraction) -> Decimal:
    """Return the value with at most 60 digits, not below it."""
    with precise() as context:
        quotient = Decimal(value.numerator) / Decimal(value.denominator)
        return quotient if Fraction(quotient) >= value else context.next_plus(quotient)
