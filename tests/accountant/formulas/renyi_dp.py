"""From Renyi DP at one order to (epsilon, delta)-DP, and the budget of the simpler conversion."""

from __future__ import annotations

from decimal import Decimal

from accountant.conversions.renyi_arithmetic import (
    Real,
    down,
    exact_or_down,
    exact_or_up,
    log1p,
    up,
    working,
)


def c_alpha(order: Real) -> Decimal:
    """Return (1 - 1/alpha)^(alpha-1) / alpha, rounded up.

    The hockey-stick at epsilon is at most c_alpha e^((alpha-1)(D_alpha - epsilon)).

    Args:
        order: alpha > 1.
    Source: Canonne, Kamath and Steinke 2020 Prop 12; docs/theory.md P5.
    """
    with working():
        # c_alpha decreases with the order.
        return up(_log_c(exact_or_down(order)).exp())


def epsilon_mironov(order: Real, *, spent: Real, delta: Decimal) -> Decimal:
    """Return epsilon of the (epsilon, delta)-DP that D_alpha = `spent` implies, rounded up.

    Args:
        order: alpha > 1.
        spent: D_alpha in nats, >= 0.
        delta: 0 < delta < 1.
    Source: Mironov 2017 Prop 3.
    """
    with working():
        total, alpha = exact_or_up(spent), exact_or_down(order)
        log = -delta.ln() / (alpha - 1)
        return up(total + log, total, log)


def epsilon_cks(order: Real, *, spent: Real, delta: Decimal) -> Decimal:
    """Return epsilon of the (epsilon, delta)-DP that D_alpha = `spent` implies, rounded up.

    Below 0 where delta alone is more than enough.

    Args:
        order: alpha > 1.
        spent: D_alpha in nats, >= 0.
        delta: 0 < delta < 1.
    Source: Canonne, Kamath and Steinke 2020 Prop 12.
    """
    with working():
        total, alpha = exact_or_up(spent), exact_or_down(order)
        log, c = -delta.ln() / (alpha - 1), _log_c(alpha) / (alpha - 1)
        return up(total + log + c, total, log, c)


def budget_mironov(order: Real, *, epsilon: Decimal, delta: Decimal) -> Decimal:
    """Return the D_alpha that (epsilon, delta)-DP leaves room for, rounded down.

    At most 0 where the order admits nothing.

    Args:
        order: alpha > 1.
        epsilon: in nats, > 0.
        delta: 0 < delta < 1.
    Source: Mironov 2017 Prop 3, solved for D_alpha.
    """
    with working():
        log = -delta.ln() / (exact_or_down(order) - 1)
        return down(epsilon - log, epsilon, log)


def _log_c(alpha: Decimal) -> Decimal:
    # ln(1 - 1/alpha) = -ln(1 + 1/(alpha-1)), which keeps its digits for large alpha.
    less = alpha - 1
    return -less * log1p(1 / less) - alpha.ln()
