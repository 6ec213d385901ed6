"""Gaussian releases and sessions of Brownian mechanisms on one budget of rho."""

from __future__ import annotations

from decimal import Decimal

from accountant.amounts import Units
from accountant.filters.additive import AdditiveFilter
from accountant.filters.base import Budget
from accountant.filters.zcdp import ZcdpFilter
from accountant.filters.zcdp_tight import ZcdpTightFilter


class UnifiedBrownianFilter(AdditiveFilter):
    """Admit while sum rho + sum over sessions of D^2/(2 t) <= rho_g and sum delta <= delta''.

    A refinement from variance t_prev to t is the next mechanism of the whole history, of
    rho = (D^2/2) (1/t - 1/t_prev): a session's costs telescope to D^2/(2 t) at the last
    variance shown, and sessions of many analysts interleave. Guarantees what zcdp does where
    the policy gives rho, what zcdp_tight does where it gives epsilon. Source: Rogers 2023
    section 6; docs/theory.md Theorem A (P4) and P2.
    """

    name = "unified_brownian"
    error_law = "discrete_gaussian"
    budget_fields = ("epsilon", "rho")
    sums = ("rho", "delta")

    def default_for_claims(self, delta: Decimal, *, budget_field: str) -> Decimal:
        return delta if budget_field == "rho" else Decimal(0)

    def capacity(self, budget: Budget) -> tuple[Units, ...]:
        kind = ZcdpFilter() if budget.epsilon is None else ZcdpTightFilter()
        return kind.capacity(budget)
