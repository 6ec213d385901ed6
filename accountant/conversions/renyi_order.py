"""The Renyi order at which the most requests fit (docs/theory.md section 3, renyi)."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Final

from accountant.conversions.renyi_arithmetic import Real
from accountant.conversions.renyi_dp import budget_cks

_INTERVALS: Final = 64  # of the grid over all orders, evenly in ln(alpha - 1)
_GOLDEN: Final = (math.sqrt(5) - 1) / 2
_SECTIONS: Final = 24
_CLOSE: Final = 3  # integers tried on either side of the best order


def best_order(
    *,
    epsilon: Decimal,
    delta: Decimal,
    curve: Callable[[Decimal], Real],
    minimum: Decimal,
    maximum: Decimal,
) -> Decimal | None:
    """Return an order at which the most requests fit (epsilon, delta); None if none fits any.

    An integer, unless another order tried fits more. Every order fixed in advance is valid, so
    the search may use floats: only the number of requests that fit depends on it.

    Args:
        epsilon: in nats, > 0.
        delta: 0 < delta < 1.
        curve: the cost of one request at an order, in nats, > 0.
        minimum, maximum: the range of orders.
    """

    def ratio(order: Decimal) -> Fraction:
        room = budget_cks(order, epsilon=epsilon, delta=delta)
        return Fraction(room) / Fraction(curve(order)) if room > 0 else Fraction(0)

    def at(x: float) -> Decimal:
        # Four digits of alpha - 1: an owner reads and types the order.
        return min(max(1 + Decimal(f"{math.exp(x):.4g}"), minimum), maximum)

    low, high = math.log(minimum - 1), math.log(maximum - 1)
    step = (high - low) / _INTERVALS
    best = max(range(_INTERVALS + 1), key=lambda k: ratio(at(low + k * step)))
    x = low + best * step
    peak = at(_peak(lambda y: ratio(at(y)), x - step, x + step))
    near = int(peak)
    around = (Decimal(near + k) for k in range(-_CLOSE, _CLOSE + 2))
    integers = [order for order in around if minimum <= order <= maximum]
    tried = {order: ratio(order) for order in (*integers, peak, at(x))}
    fits = max(int(value) for value in tried.values())
    enough = [order for order in integers if int(tried[order]) == fits]
    chosen = max(enough or tried, key=lambda order: tried[order])
    return chosen if tried[chosen] else None


def _peak(value: Callable[[float], Fraction], left: float, right: float) -> float:
    """Return about the maximum point of a function that rises and then falls."""
    a, b = right - _GOLDEN * (right - left), left + _GOLDEN * (right - left)
    at_a, at_b = value(a), value(b)
    for _ in range(_SECTIONS):
        if at_a < at_b:
            left, a, at_a = a, b, at_b
            b = left + _GOLDEN * (right - left)
            at_b = value(b)
        else:
            right, b, at_b = b, a, at_a
            a = right - _GOLDEN * (right - left)
            at_a = value(a)
    return (left + right) / 2
