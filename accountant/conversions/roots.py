"""Approximate roots of increasing functions; the caller proves its result from them."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from accountant.conversions.outward import working

Evaluate = Callable[[Decimal], tuple[Decimal, Decimal]]
_MAX_STEPS = 2_000


def increasing_root(
    evaluate: Evaluate, *, low: Decimal, high: Decimal, start: Decimal, digits: int
) -> Decimal:
    """Return the root in [low, high] to about `digits` significant digits.

    Newton's method; bisection keeps it within its bracket. The root is approximate: the caller
    proves its result by an evaluation beside the root, or any point is a valid bound.

    Args:
        evaluate: from x to (value, slope); the value never falls as x grows.
    Raises: ArithmeticError: no convergence.
    """
    with working(digits + 10):
        x, before = start, high - low
        close = Decimal(10) ** -digits
        for _ in range(_MAX_STEPS):
            value, slope = evaluate(x)
            if not value:
                return x
            low, high = (low, x) if value > 0 else (x, high)
            step = -value / slope if slope > 0 else high - low
            if abs(step) <= close * abs(x):
                return x + step
            if not low < x + step < high or abs(step) > before / 2:
                step = (low + high) / 2 - x
            x, before = x + step, abs(step)
            if high - low <= close * abs(x):
                return x
    raise ArithmeticError(f"no root to {digits} digits between {low} and {high}")
