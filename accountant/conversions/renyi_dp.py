"""The Renyi budget at one order under an (epsilon, delta)-DP guarantee.

At order alpha, epsilon exceeds the divergence by ln(1/delta)/(alpha-1) (Mironov 2017 Prop 3); by
ln(c_alpha/delta)/(alpha-1), which is less since c_alpha = (1 - 1/alpha)^(alpha-1) / alpha < 1
(Canonne, Kamath and Steinke 2020 Prop 12); or by the least possible, which costs more to
compute (Asoodeh et al. 2020).
"""

from __future__ import annotations

from decimal import Decimal

from accountant.conversions.renyi_arithmetic import (
    Real,
    down,
    exact_or_down,
    log1p,
    working,
)


def budget_cks(order: Real, *, epsilon: Decimal, delta: Decimal) -> Decimal:
    """Return epsilon - ln(c_alpha/delta)/(alpha-1), rounded down.

    It is 0 or less where no claim fits at this order.

    Args:
        order: alpha > 1.
        epsilon: in nats, > 0.
        delta: 0 < delta < 1.
    Source: Canonne, Kamath and Steinke 2020 Prop 12, solved for D_alpha.
    """
    with working():
        log, c = _excess(exact_or_down(order), delta)
        return down(epsilon - log - c, epsilon, log, c)


def _excess(alpha: Decimal, delta: Decimal) -> tuple[Decimal, Decimal]:
    """Return ln(1/delta)/(alpha-1) and ln(c_alpha)/(alpha-1)."""
    less = alpha - 1
    return -delta.ln() / less, _log_c(alpha) / less


def _log_c(alpha: Decimal) -> Decimal:
    # ln(1 - 1/alpha) = -ln(1 + 1/(alpha-1)), which keeps its digits for large alpha.
    less = alpha - 1
    return -less * log1p(1 / less) - alpha.ln()
