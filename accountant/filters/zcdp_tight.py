"""zCDP inside, (epsilon, delta)-DP outside, by the tight conversion."""

from __future__ import annotations

from accountant.amounts import Units, budget_down, units_down
from accountant.conversions.tight_zcdp import capacity
from accountant.filters.additive import AdditiveFilter
from accountant.filters.base import Budget, own_delta, require_positive


class ZcdpTightFilter(AdditiveFilter):
    """Admit while sum rho <= rho*(epsilon, delta') and sum delta <= delta''.

    Guarantees (epsilon, delta'' + (1 - delta'') delta')-DP. Source: Whitehouse 2023 Thm 7
    with the tight conversion; derivation in docs/theory.md section 3 and P2.
    """

    name = "zcdp_tight"
    error_law = "discrete_gaussian"
    sums = ("rho", "delta")

    def capacity(self, budget: Budget) -> tuple[Units, ...]:
        epsilon, delta = require_positive(budget.epsilon, "epsilon"), own_delta(budget)
        maximum = capacity(epsilon=epsilon, delta=delta)
        return budget_down(maximum), units_down(budget.delta_for_claims)
