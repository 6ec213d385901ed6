"""Ex-post claims on their own budget: the answer shown determines its cost."""

from __future__ import annotations

from decimal import Decimal

from accountant.amounts import Units, units_down
from accountant.filters.additive import AdditiveFilter
from accountant.filters.base import Budget, require_positive


class ExPostFilter(AdditiveFilter):
    """Admit while sum E <= epsilon' and sum delta <= delta', each E at its bound.

    A claim is charged its bound before its mechanism runs, so every settlement fits.
    Guarantees (epsilon', delta')-DP to ex-post claims; others are not accepted. Source:
    Rogers 2023 Lemma 5.2.
    """

    name = "ex_post"
    takes_beside = False
    settles_ex_post = True
    sums = ("ex_post_only", "delta")

    def default_for_claims(self, delta: Decimal, *, budget_field: str) -> Decimal:
        return delta

    def capacity(self, budget: Budget) -> tuple[Units, ...]:
        epsilon = require_positive(budget.epsilon, "epsilon")
        return units_down(epsilon), units_down(budget.delta_for_claims)
