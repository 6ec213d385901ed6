"""Fully adaptive composition at the rate of advanced composition."""

from __future__ import annotations

from accountant.amounts import Units, below, budget_down, precise, units_down
from accountant.filters.additive import AdditiveFilter
from accountant.filters.base import Budget, own_delta, require_positive


class FullyAdaptiveFilter(AdditiveFilter):
    """Admit while sqrt(2 ln(1/delta') V) + V/2 <= epsilon and sum delta <= delta''.

    V is the sum of epsilon^2 of DP claims and of 2 rho of zCDP claims. Guarantees
    (epsilon, delta' + delta'')-DP. Source: Whitehouse 2023 Thm 1 and Thm 6.
    """

    name = "fully_adaptive"
    error_law = "discrete_gaussian"
    sums = ("intrinsic_time", "delta")

    def capacity(self, budget: Budget) -> tuple[Units, ...]:
        epsilon, delta = require_positive(budget.epsilon, "epsilon"), own_delta(budget)
        with precise():
            twice_log = -2 * delta.ln()
            # The bound increases with V, so the rule is V <= V*, its root. This form avoids a
            # difference that cancels: sqrt(V*) = 2 epsilon / (sqrt(2L) + sqrt(2L + 2 epsilon)).
            root = 2 * epsilon / (twice_log.sqrt() + (twice_log + 2 * epsilon).sqrt())
            maximum = below(root * root, digits=50)
        return budget_down(maximum), units_down(budget.delta_for_claims)
