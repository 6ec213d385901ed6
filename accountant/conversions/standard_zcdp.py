"""From zCDP to (epsilon, delta)-DP by the papers' formula, rho + 2 sqrt(rho ln(1/delta)).

Simpler and looser than `tight_zcdp`.
"""

from __future__ import annotations

from decimal import Decimal

from accountant.amounts import above, precise
from accountant.conversions.outward import Real, decimal_down, decimal_up, log_probability


def standard_epsilon(*, rho: Real, delta: Real) -> Decimal:
    """Return an epsilon such that rho-zCDP is (epsilon, delta)-DP, rounded up.

    Args:
        rho: in nats, >= 0.
        delta: 0 < delta <= 1.
    Raises: ArithmeticError: delta is out of range.
    Source: Bun and Steinke 2016 Prop 1.3; docs/theory.md section 1.
    """
    with precise():
        r, log = decimal_up(rho), -log_probability(decimal_down(delta), digits=60)
        return above(r + 2 * (r * log).sqrt(), digits=50)
