"""From zCDP to (epsilon, delta)-DP, tightly (Canonne, Kamath and Steinke 2020).

With a = alpha - 1 > 0, *every* a gives a valid bound,

    ln delta <= a ((1 + a) rho - epsilon + ln a) - (1 + a) ln(1 + a),

so an inexact optimum makes the result looser, never wrong.
"""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache

from accountant.amounts import above, below, precise
from accountant.conversions.outward import (
    Real,
    decimal_down,
    decimal_up,
    expm1,
    log1p,
    log_probability,
    working,
)
from accountant.conversions.roots import increasing_root

_WORKED = 60
_HALVINGS = 220  # bisection steps of a root: enough for the context's 60 digits


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

    Each order has its stationary rho = (epsilon - ln(1-1/alpha)) / (2 alpha - 1); with it the
    left side increases with the order.
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


def tight_epsilon(*, rho: Real, delta: Real) -> Decimal:
    """Return the least epsilon >= 0 such that rho-zCDP is (epsilon, delta)-DP, rounded up.

    Args:
        rho: in nats, >= 0.
        delta: > 0; from 1 on the result is 0.
    Raises: ArithmeticError: delta is not above 0.
    Source: the module's bound solved for epsilon, (1 + a) rho + (L - ln(1+a))/a - ln(1 + 1/a)
    with L = ln(1/delta). Its derivative by a has the sign of a^2 rho + ln(1 + a) - L, which
    increases: the root is the best a.
    """
    r, d = decimal_up(rho), decimal_down(delta)
    if not r or d >= 1:
        return Decimal(0)
    # Near epsilon = 0 the terms cancel as many digits as rho has zeros after the point.
    digits = _WORKED + max(0, -r.adjusted())
    with working(digits):
        log = -log_probability(d, digits=digits)

    def evaluate(a: Decimal) -> tuple[Decimal, Decimal]:
        with working(digits):
            return a * a * r + log1p(a, digits=digits) - log, 2 * a * r + 1 / (1 + a)

    with working(digits):
        high = min((log / r).sqrt(), expm1(log, digits=digits)) * 2
        a = increasing_root(evaluate, low=Decimal(0), high=high, start=high / 2, digits=25)
        terms = (1 + a) * r, (log - log1p(a, digits=digits)) / a, -log1p(1 / a, digits=digits)
        slack = max(map(abs, terms)).scaleb(10 - digits)
        return max(Decimal(0), above(sum(terms, slack), digits=40))
