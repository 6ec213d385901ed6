"""The zCDP parameter rho of a mechanism, in nats, each rounded up."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from accountant.amounts import above, precise
from accountant.conversions.outward import decimal_up, expm1, working


def pure_rho(epsilon: Fraction) -> Decimal:
    """Return the least rho that holds for every epsilon-DP mechanism: epsilon tanh(epsilon/2).

    Source: docs/theory.md P1; Steinke 2024 Thm 5.
    """
    with precise():
        x = decimal_up(epsilon)
        grown = expm1(x, digits=55)
        # tanh(x/2) = (e^x - 1)/(e^x + 1).
        return above(x * grown / (grown + 2), digits=40)


def laplace_rho(epsilon: Fraction) -> Decimal:
    """Return the rho of Laplace noise, epsilon = sensitivity/scale: epsilon + e^-epsilon - 1.

    Source: docs/theory.md section 1.
    """
    x = decimal_up(epsilon)
    # The sum is about epsilon^2/2: it loses twice as many digits as epsilon has zeros after the
    # point.
    with working(60 + 2 * max(0, -x.adjusted())):
        return above(x + ((-x).exp() - 1), digits=40)


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
