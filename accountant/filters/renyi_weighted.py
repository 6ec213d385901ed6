"""Renyi divergences of several orders, each with a part of delta: one within budget is enough."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction
from itertools import pairwise
from operator import le
from typing import ClassVar, Final

from accountant.amounts import INFINITE, Units, parse, precise
from accountant.claims.price import Price
from accountant.errors import RequestInvalid
from accountant.filters.base import Budget, Parameter, Parameters, require_positive, sum_name
from accountant.filters.renyi import order_budget, parse_order, whole_delta
from accountant.filters.summed import SummedFilter

MAX_ORDERS: Final = 16
_NAMES: Final = "renyi_weighted and renyi_mixture"


class RenyiWeightedFilter(SummedFilter):
    """Admit while some order j has sum D_{alpha_j} <= epsilon - ln(c_j/delta_j)/(alpha_j - 1).

    delta_j = w_j delta, and the w_j add up to at most 1: with delta undivided the rule spends
    1.48 delta (docs/theory.md section 7). A granted claim adds to every order's sum, so an
    order over its budget stays over it. Guarantees (epsilon, delta)-DP to claims that have a
    Renyi curve; a claim with a delta has no curve. Source: docs/theory.md P5a (own derivation).

    Args:
        orders: alpha_1 < alpha_2 < ..., each 1.000001 to 1e9, at most 16.
        weights: as many w_j > 0, together at most 1. Default: all the same.
    """

    name = "renyi_weighted"
    error_law = "discrete_gaussian"
    parameters: ClassVar[Parameters] = {
        "orders": Parameter(
            f"The orders of {_NAMES}, as in 22,40. Default: the best of each claim.", ("22", "40")
        ),
        "weights": Parameter(
            f"The weights of {_NAMES}, as in 0.5,0.5. Default: all the same.", ("0.5", "0.5")
        ),
    }

    def __init__(
        self, orders: tuple[str, ...] | None = None, weights: tuple[str, ...] | None = None
    ) -> None:
        self.orders = _orders(orders)
        self.weights = _weights(weights, len(self.orders))
        self.sums = tuple(sum_name("renyi", order) for order in self.orders)

    def capacity(self, budget: Budget) -> tuple[Units, ...]:
        epsilon, delta = require_positive(budget.epsilon, "epsilon"), whole_delta(budget)
        return tuple(
            order_budget(order, epsilon, _part(weight, delta), field=f"orders[{j}]")
            for j, (order, weight) in enumerate(zip(self.orders, self.weights, strict=True))
        )

    def holds(self, capacity: tuple[Units, ...], spent: tuple[Units, ...]) -> bool:
        return any(map(le, spent, capacity))

    def remaining(self, capacity: tuple[Units, ...], spent: tuple[Units, ...]) -> tuple[Units, ...]:
        return tuple([max(0, limit - s) for limit, s in zip(capacity, spent, strict=True)])

    def excess(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> float | None:
        return min(self._excesses(capacity, spent, price))

    def accepts(self, price: Price) -> bool:
        return any(amount != INFINITE for amount in price.amounts[: len(self.sums)])

    def progress(self, capacity: tuple[Units, ...], spent: tuple[Units, ...]) -> Units:
        """Return the smallest spent part of all orders, in units of the first order's budget."""
        whole, best = capacity[0], (spent[0], capacity[0])
        for s, limit in zip(spent, capacity, strict=True):
            if s * best[1] < best[0] * limit:
                best = s, limit
        minimum, limit = best
        return int(-(-minimum * whole // limit)) if minimum < limit else whole


def _orders(texts: tuple[str, ...] | None) -> tuple[Decimal, ...]:
    if not texts:
        raise RequestInvalid("orders", "must be given for this filter", None)
    if len(texts) > MAX_ORDERS:
        rule = f"must hold at most {MAX_ORDERS}"
        raise RequestInvalid("orders", rule, f"{len(texts)} orders")
    orders = tuple(parse_order(text, field=f"orders[{j}]") for j, text in enumerate(texts))
    for j, (before, after) in enumerate(pairwise(orders), start=1):
        if before >= after:
            raise RequestInvalid(f"orders[{j}]", "must be above the one before it", texts[j])
    return orders


def _weights(texts: tuple[str, ...] | None, count: int) -> tuple[Fraction, ...]:
    if texts is None:
        return (Fraction(1, count),) * count
    if len(texts) != count:
        rule = "must be as many as there are orders"
        raise RequestInvalid("weights", rule, f"{len(texts)} for {count}")
    weights = [Fraction(parse(text, field=f"weights[{j}]")) for j, text in enumerate(texts)]
    for j, weight in enumerate(weights):
        if not weight:
            raise RequestInvalid(f"weights[{j}]", "must be greater than 0", texts[j])
    if sum(weights) > 1:
        raise RequestInvalid("weights", "must add up to at most 1", ", ".join(texts))
    return tuple(weights)


def _part(weight: Fraction, delta: Decimal) -> Decimal:
    """Return weight times delta, rounded down."""
    part = weight * Fraction(delta)
    with precise() as context:
        context.rounding = ROUND_FLOOR
        return Decimal(part.numerator) / Decimal(part.denominator)
