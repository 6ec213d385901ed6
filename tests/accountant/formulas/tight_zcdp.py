"""delta of rho-zCDP by the tight conversion, for comparison with the epsilon that decides."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from accountant.amounts import above
from accountant.conversions.outward import Real, decimal_down, decimal_up, log1p, working
from accountant.conversions.roots import increasing_root

_WORKED: Final = 60


def tight_log_delta(*, rho: Real, epsilon: Real) -> Decimal:
    """Return ln delta such that rho-zCDP is (epsilon, delta)-DP, rounded up.

    A logarithm, for deltas such as 1e-4000 that no float holds. -Infinity for rho = 0.

    Args:
        rho: in nats, >= 0.
        epsilon: in nats, >= 0.
    Source: the bound of `accountant.conversions.tight_zcdp` at its minimum, where
    (1 + 2a) rho + ln a - ln(1 + a) = epsilon; the left side increases with a. The unknown is
    t = ln a: a is about e^(epsilon - rho) if rho is large.
    """
    r, eps = decimal_up(rho), decimal_down(epsilon)
    if not r:
        return Decimal("-Infinity")
    digits = _WORKED + 2 * max(0, r.adjusted(), eps.adjusted(), -r.adjusted())

    def evaluate(t: Decimal) -> tuple[Decimal, Decimal]:
        with working(digits):
            a = t.exp()
            value = (1 + 2 * a) * r + t - log1p(a, digits=digits) - eps
            return value, 2 * a * r + 1 / (1 + a)

    with working(digits):
        low = high = Decimal(0)
        while evaluate(low)[0] > 0:
            low = 2 * low - 1
        while evaluate(high)[0] < 0:
            high = 2 * high + 1
        t = increasing_root(evaluate, low=low, high=high, start=(low + high) / 2, digits=25)
        a = t.exp()
        terms = a * ((1 + a) * r - eps + t), -(1 + a) * log1p(a, digits=digits)
        slack = max(map(abs, terms)).scaleb(-45)
        return min(above(sum(terms, slack), digits=40), Decimal(0))
