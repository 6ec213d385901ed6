"""Basic composition: epsilons and deltas add up."""

from __future__ import annotations

from accountant.amounts import Units, units_down
from accountant.filters.additive import AdditiveFilter
from accountant.filters.base import Budget
from accountant.filters.required import required


class Basic(AdditiveFilter):
    """Admit while sum epsilon <= epsilon_g and sum delta <= delta_g.

    Guarantees (epsilon_g, delta_g)-DP to DP and pDP claims. Source: Rogers 2016 Thm 3.6.
    """

    name = "basic"
    all_delta_for_claims = True
    sums = ("epsilon", "delta")

    def capacity(self, budget: Budget) -> tuple[Units, ...]:
        epsilon = required(budget.epsilon, "epsilon")
        return units_down(epsilon), units_down(budget.delta_for_claims)
