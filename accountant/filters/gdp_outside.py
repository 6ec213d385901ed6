"""The Gaussian budget of a dataset whose owners may record what was released elsewhere."""

from __future__ import annotations

from accountant.amounts import Units, below, budget_down, precise, units_down
from accountant.conversions.gdp import gdp_capacity
from accountant.filters.additive import AdditiveFilter
from accountant.filters.base import Budget, own_delta, require_positive


class GdpOutsideFilter(AdditiveFilter):
    """Admit while sum mu^2 <= m^2 and sum delta <= delta'', in any order.

    Under gdp_residue a pure mechanism costs by the state, so a release that is recorded later
    would have to be charged before all grants that came after it. Here each mechanism is charged
    the mu^2 of the Gaussian one that dominates it, about 1.57 epsilon^2 for a small epsilon, and no
    cost depends on another. Guarantees (epsilon_g, delta'' + (1 - delta'') delta')-DP to the
    claims of gdp_residue, whose cost is never larger (docs/theory.md P10, P11). Source: P6.
    """

    name = "gdp_residue"
    sums = ("dominating_mu_squared", "delta")

    def capacity(self, budget: Budget) -> tuple[Units, ...]:
        return gaussian_capacity(budget)


def gaussian_capacity(budget: Budget) -> tuple[Units, ...]:
    """Return the m^2 with delta_m(epsilon_g) = delta', and delta'', both rounded down.

    Raises: RequestInvalid: epsilon or delta' is 0.
    """
    epsilon, delta = require_positive(budget.epsilon, "epsilon"), own_delta(budget)
    mu = gdp_capacity(epsilon=epsilon, delta=delta)
    with precise():
        maximum = below(mu * mu, digits=50)
    return budget_down(maximum), units_down(budget.delta_for_claims)
