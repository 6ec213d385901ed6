"""The joint bound of several orders of Renyi divergence: docs/theory.md P5b, taken literally.

sup over l > epsilon of (1 - e^(epsilon-l)) / sum_j w_j e^((alpha_j-1)(l-S_j)), in logarithms.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Final

from tests.faults.oracle.amounts import INFINITE, UNIT, Real, mp, real

Setting = tuple[str, Fraction, tuple[str, ...], tuple[Fraction, ...]]
"""epsilon, delta, the orders and their weights."""

_HALVINGS: Final = 60
_PARTS: Final = 10**8
"""The spent part is a multiple of one over this number, rounded up."""


def log_proved(setting: Setting, totals: tuple[float, ...]) -> Real:
    """Return ln of the delta that totals in units prove; infinite if they prove none."""
    epsilon, _, orders, weights = setting
    known = [
        (order, weight, total)
        for order, weight, total in zip(orders, weights, totals, strict=True)
        if total != INFINITE
    ]
    if not known:
        return mp.inf
    less = [float(Fraction(order) - 1) for order, _, _ in known]
    at_budget = [
        p * (float(epsilon) - int(total) / UNIT) + math.log(weight)
        for p, (_, weight, total) in zip(less, known, strict=True)
    ]
    x = mp.mpf(_best(less, at_budget))
    terms = [
        real(weight) * mp.exp((real(order) - 1) * (x + real(epsilon) - real(Fraction(total, UNIT))))
        for order, weight, total in ((o, w, math.ceil(t)) for o, w, t in known)
    ]
    return mp.log(-mp.expm1(-x)) - mp.log(mp.fsum(terms))


def _best(less: list[float], at_budget: list[float]) -> float:
    """Return about l - epsilon of the supremum, by halving: its logarithm is concave."""
    low, high = math.log1p(1 / max(less)), math.log1p(1 / min(less))
    for _ in range(_HALVINGS):
        x = math.sqrt(low * high)
        logs = [p * x + start for p, start in zip(less, at_budget, strict=True)]
        top = max(logs)
        each = [math.exp(log - top) for log in logs]
        steep = sum(p * e for p, e in zip(less, each, strict=True)) / sum(each)
        low, high = (x, high) if steep * math.expm1(x) < 1 else (low, x)
    return low


def proves(setting: Setting, totals: tuple[float, ...]) -> bool:
    """Return whether totals in units prove the policy's delta."""
    return bool(log_proved(setting, totals) <= mp.log(real(setting[1])))


@lru_cache(maxsize=4096)
def spent_part(setting: Setting, totals: tuple[float, ...]) -> Fraction:
    """Return the least divisor of all totals with which they prove delta, at most 1."""
    if not all(totals):
        return Fraction(0)
    low, high = 0, _PARTS
    while high - low > 1:
        middle = (low + high) // 2
        larger = tuple(
            total if total == INFINITE else -(-math.ceil(total) * _PARTS // middle)
            for total in totals
        )
        low, high = (low, middle) if proves(setting, larger) else (middle, high)
    return Fraction(high, _PARTS)
