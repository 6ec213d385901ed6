"""Basic composition: epsilons and deltas add up."""

from __future__ import annotations

from decimal import Decimal

from accountant.amounts import Units, units_down
from accountant.filters.additive import AdditiveFilter
from accountant.filters.base import Budget, require_positive


class BasicFilter(AdditiveFilter):
    """Admit while sum epsilon <= epsilon_g and sum delta <= delta_g.

    Guarantees (epsilon_g, delta_g)-DP to DP and pDP claims. Source: Rogers 2016 Thm 3.6.
    """

    name = "basic"
    takes_beside = False
    settles_ex_post = True
    sums = ("epsilon", "delta")

    def default_for_claims(self, delta: Decimal, *, budget_field: str) -> Decimal:
        return delta

    def capacity(self, budget: Budget) -> tuple[Units, ...]:
        epsilon = require_positive(budget.epsilon, "epsilon")
        return units_down(epsilon), units_down(budget.delta_for_claims)
