"""The optimal composition of equal pure mechanisms: as many as are declared, and counted."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import ClassVar, Final

from accountant.amounts import UNIT, Units, parse_in, units_down
from accountant.claims.fields import MAX_EPSILON, MIN_EPSILON
from accountant.conversions.optimal_composition import most_composed
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

MAX_MECHANISMS: Final = 10_000_000
"""The number is found at opening, in about 0.2 s where it is so large."""


class OptimalHomogeneousFilter(AdditiveFilter):
    """Admit k mechanisms, each epsilon-DP for an epsilon of at most `epsilon_each`.

    k is the most randomized responses of `epsilon_each` that are (epsilon, delta')-DP together:
    with as many, no filter can do more. An (epsilon, delta)-DP claim counts as an epsilon-DP one,
    and pays its delta, sum delta <= delta''. A mechanism of epsilon 0 is not counted. Guarantees
    (epsilon, delta'' + (1 - delta'') delta')-DP, in any order. Source: Kairouz, Oh and Viswanath
    2015 Thm 3.3, for mechanisms chosen along the way docs/theory.md P6.

    Args:
        epsilon_each: fixed in advance, in nats.
    """

    name = "optimal_homogeneous"
    parameters: ClassVar[Parameters] = {
        "epsilon_each": Parameter(
            "The most epsilon of one claim under filter optimal_homogeneous.", "0.01"
        )
    }

    def __init__(self, epsilon_each: str | None = None) -> None:
        if epsilon_each is None:
            raise RequestInvalid("epsilon_each", "must be given for this filter", None)
        self._text = epsilon_each
        self.epsilon_each = parse_in(
            epsilon_each, field="epsilon_each", minimum=MIN_EPSILON, maximum=MAX_EPSILON, zero=False
        )
        self.sums = (sum_name("within", self.epsilon_each), "delta")

    def capacity(self, budget: Budget) -> tuple[Units, ...]:
        epsilon, delta = require_positive(budget.epsilon, "epsilon"), own_delta(budget)
        count = _max_count(self.epsilon_each, epsilon, delta)
        if count is None:
            rule = f"must be larger: the budget holds more than {MAX_MECHANISMS:,} of it"
            raise RequestInvalid("epsilon_each", rule, self._text)
        if not count:
            rule = "must be smaller: not one fits the budget"
            raise RequestInvalid("epsilon_each", rule, self._text)
        return count * UNIT, units_down(budget.delta_for_claims)


@lru_cache(maxsize=4096)
def _max_count(each: Decimal, epsilon: Decimal, delta: Decimal) -> int | None:
    return most_composed(epsilon=each, target=epsilon, delta=delta, maximum=MAX_MECHANISMS)
