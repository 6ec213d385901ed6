"""zCDP: rhos add up."""

from __future__ import annotations

from decimal import Decimal

from accountant.amounts import Units, units_down
from accountant.filters.additive import AdditiveFilter
from accountant.filters.base import Budget, require_positive


class ZcdpFilter(AdditiveFilter):
    """Admit while sum rho <= rho_g and sum delta <= delta_g.

    Guarantees delta_g-approximate rho_g-zCDP. Source: Whitehouse 2023 Thm 7, its proof
    repaired in docs/theory.md P2.
    """

    name = "zcdp"
    error_law = "discrete_gaussian"
    takes_beside = False
    budget_fields = ("rho",)
    sums = ("rho", "delta")

    def default_for_claims(self, delta: Decimal, *, budget_field: str) -> Decimal:
        return delta

    def capacity(self, budget: Budget) -> tuple[Units, ...]:
        return units_down(require_positive(budget.rho, "rho")), units_down(budget.delta_for_claims)
