"""From zCDP to (epsilon, delta)-DP, tightly (Canonne, Kamath and Steinke 2020)."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache

from accountant.amounts import below, precise

_HALVINGS = 220  # of the bracket of a root: beyond the 60 digits of the context


@lru_cache(maxsize=4096)
def capacity(*, epsilon: Decimal, delta: Decimal) -> Decimal:
    """Return the largest rho whose tight conversion is (epsilon, delta)-DP, rounded down.

    Args:
        epsilon: in nats, > 0.
        delta: 0 < delta < 1.
    Source: docs/theory.md section 1, delta'(rho, epsilon). Its bound holds for *every* order
    alpha > 1, so an inexact root only makes the result smaller, never wrong.
    """
    with precise():
        log_inverse_delta = -delta.ln()
        alpha = _best_order(epsilon, log_inverse_delta)
        # Solve (alpha-1)(alpha rho - epsilon) + alpha ln(1-1/alpha) - ln(alpha-1) = ln delta.
        constant = (alpha - 1).ln() - alpha * (1 - 1 / alpha).ln() - log_inverse_delta
        rho = (epsilon + constant / (alpha - 1)) / alpha
    return max(below(rho, digits=25), Decimal(0))


def _best_order(epsilon: Decimal, log_inverse_delta: Decimal) -> Decimal:
    """Bisect (alpha-1)^2 rho + ln alpha = ln(1/delta).

    It increases along the stationary orders, rho = (epsilon - ln(1-1/alpha)) / (2 alpha - 1).
    """

    def is_below(alpha: Decimal) -> bool:
        rho = (epsilon - (1 - 1 / alpha).ln()) / (2 * alpha - 1)
        return (alpha - 1) ** 2 * rho + alpha.ln() < log_inverse_delta

    low, high = 1 + Decimal("1e-20"), Decimal(2)
    while is_below(high):
        low, high = high, high * 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return high
