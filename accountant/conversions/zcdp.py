"""The zCDP parameter rho of a mechanism, in nats, each rounded up."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from accountant.amounts import above, below, precise
from accountant.conversions.outward import decimal_down, decimal_up, expm1, working


def pure_rho(epsilon: Fraction) -> Decimal:
    """Return the least rho of every epsilon-DP mechanism: epsilon tanh(epsilon/2).

    Source: docs/theory.md P1; Steinke 2024 Thm 5.
    """
    with precise():
        x = decimal_up(epsilon)
        grown = expm1(x, digits=55)
        # tanh(x/2) = (e^x - 1)/(e^x + 1).
        return above(x * grown / (grown + 2), digits=40)


def pure_rho_half(epsilon: Fraction) -> Fraction:
    """Return epsilon^2/2, an exact and looser rho of every epsilon-DP mechanism.

    For comparison with `pure_rho`. Source: Bun and Steinke 2016 Prop 1.4.
    """
    return epsilon**2 / 2


def laplace_rho(epsilon: Fraction) -> Decimal:
    """Return the rho of Laplace noise, epsilon = sensitivity/scale: epsilon + e^-epsilon - 1.

    Source: docs/theory.md section 1.
    """
    x = decimal_up(epsilon)
    # About epsilon^2/2: the sum loses twice as many digits as epsilon has zeros.
    with working(60 + 2 * max(0, -x.adjusted())):
        return above(x + ((-x).exp() - 1), digits=40)


def bounded_range_rho(eta: Fraction) -> Fraction:
    """Return the rho of an eta-bounded-range mechanism: eta^2/8.

    Source: docs/theory.md section 1; the exponential mechanism has eta = epsilon.
    """
    return eta**2 / 8


def bounded_range_mean_loss(eta: Fraction) -> Decimal:
    """Return the largest mean loss of an eta-bounded-range mechanism, rounded down.

    u - 1 - ln u with u = eta/(e^eta - 1). No rho can be smaller than the mean loss, so this
    lies below every valid rho: for comparison with `bounded_range_rho`, never a cost.

    Args:
        eta: in nats, > 0.
    Source: docs/theory.md section 1; Dong, Durfee and Rogers 2020.
    """
    # About eta^2/8: the difference loses up to twice as many digits as eta has zeros.
    eta_down = decimal_down(eta)
    digits = 60 + 3 * max(0, -eta_down.adjusted())
    with working(digits):
        u = eta_down / expm1(eta_down, digits=digits)
        return below(u - 1 - u.ln(), digits=30)


def gaussian_rho(*, sigma: Fraction, sensitivity: Fraction) -> Fraction:
    """Return the exact rho of one Gaussian release.

    Args:
        sigma: noise standard deviation, in query units, > 0.
        sensitivity: l2 sensitivity, in query units, >= 0.
    Source: Bun and Steinke 2016, Prop 1.6.
    """
    return sensitivity**2 / (2 * sigma**2)
