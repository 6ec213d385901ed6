"""Renyi divergences of one order, fixed at opening, add up."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Context, Decimal
from typing import ClassVar, Final

from accountant.amounts import Units, parse_in, units_down
from accountant.conversions.renyi_dp import budget_cks
from accountant.errors import RequestInvalid
from accountant.filters.additive import AdditiveFilter
from accountant.filters.base import (
    Budget,
    Parameter,
    Parameters,
    own_delta,
    require_positive,
    sum_name,
)

MIN_ORDER: Final = Decimal("1.000001")
MAX_ORDER: Final = Decimal("1e9")
_KEPT: Final = Context(prec=20, rounding=ROUND_FLOOR)  # so that records stay short


class RenyiFilter(AdditiveFilter):
    """Admit while sum D_alpha <= epsilon - ln(c_alpha/delta)/(alpha-1), at one order alpha.

    Guarantees (epsilon, delta)-DP to claims that have a Renyi curve; a claim with a delta has
    no curve. Source: Feldman and Zrnic 2021, with the conversion of Canonne, Kamath and Steinke
    2020; docs/theory.md section 3 and P5.

    Args:
        order: alpha, 1.000001 to 1e9, fixed in advance: an order chosen from the spent totals
            would need a union bound, as in `renyi_weighted`.
    """

    name = "renyi"
    error_law = "discrete_gaussian"
    parameters: ClassVar[Parameters] = {
        "order": Parameter(
            "The order of filter renyi. Default: the best one, which is printed.", "22"
        )
    }

    def __init__(self, order: str | None = None) -> None:
        self.order = parse_order(order, field="order")
        self.sums = (sum_name("renyi", self.order),)

    def capacity(self, budget: Budget) -> tuple[Units, ...]:
        epsilon = require_positive(budget.epsilon, "epsilon")
        return (order_budget(self.order, epsilon, whole_delta(budget), field="order"),)


def parse_order(text: str | None, *, field: str) -> Decimal:
    """Return an order of Renyi divergence.

    Raises: RequestInvalid: it is missing, or not between `MIN_ORDER` and `MAX_ORDER`.
    """
    if text is None:
        raise RequestInvalid(field, "must be given for this filter", None)
    return parse_in(text, field=field, minimum=MIN_ORDER, maximum=MAX_ORDER, zero=False)


def whole_delta(budget: Budget) -> Decimal:
    """Return delta, all of it for the filter: a claim with a delta has no Renyi curve.

    Raises: RequestInvalid: delta is 0, or a part of it is for claims.
    """
    if budget.delta_for_claims:
        rule = "must be left out or 0 for this filter, which takes no claim with a delta"
        raise RequestInvalid("delta_for_claims", rule, str(budget.delta_for_claims))
    return own_delta(budget)


def order_budget(order: Decimal, epsilon: Decimal, delta: Decimal, *, field: str) -> int:
    """Return the limit on the sum of one order's divergences, rounded down, in units of 1e-40.

    Raises: RequestInvalid: the limit is 0, since the order is too small for this delta.
    """
    # A limit above epsilon (at a delta above 1/alpha) stays: the proof covers it.
    units = units_down(_KEPT.plus(budget_cks(order, epsilon=epsilon, delta=delta)))
    if units <= 0:
        rule = f"must be larger: delta {delta:.6g} leaves this order nothing to spend"
        raise RequestInvalid(field, rule, f"{order.normalize():f}")
    return units
