"""What rho is compared with: looser ones, one below every valid one, and a looser capacity."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from accountant.amounts import below, precise
from accountant.conversions.outward import (
    Real,
    decimal_down,
    expm1,
    log_probability,
    working,
)


def pure_rho_half(epsilon: Fraction) -> Fraction:
    """Return epsilon^2/2, an exact and looser rho of every epsilon-DP mechanism.

    For comparison with `pure_rho`. Source: Bun and Steinke 2016 Prop 1.4.
    """
    return epsilon**2 / 2


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


def standard_capacity(*, epsilon: Real, delta: Real) -> Decimal:
    """Return the largest rho with `standard_epsilon` <= epsilon, rounded down.

    Args:
        epsilon: in nats, >= 0.
        delta: 0 < delta <= 1.
    Raises: ArithmeticError: delta is not.
    Source: as `standard_epsilon`. The root of its quadratic, without the difference that
    cancels: sqrt(rho) = epsilon / (sqrt(epsilon + L) + sqrt(L)), L = ln(1/delta).
    """
    with precise():
        eps, log = decimal_down(epsilon), -log_probability(decimal_down(delta), digits=60)
        root = eps / ((eps + log).sqrt() + log.sqrt())
        return below(root * root, digits=50)
