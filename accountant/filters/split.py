"""Two budgets side by side: one for ex-post claims, one for all others."""

from __future__ import annotations

from decimal import Decimal
from typing import ClassVar

from accountant.amounts import Units, budget_down, parse_in, precise, units_down
from accountant.claims.fields import MAX_EPSILON, MIN_EPSILON, check_delta
from accountant.conversions.tight_zcdp import capacity
from accountant.errors import RequestInvalid
from accountant.filters.base import (
    Budget,
    Guarantee,
    Parameter,
    Parameters,
    own_delta,
    require_positive,
)
from accountant.filters.summed import SummedFilter


class SplitFilter(SummedFilter):
    """Admit a claim while its part stays within its budget, in any interleaving.

    Ex-post claims: sum E <= epsilon' and sum delta <= delta'. All others: sum rho <=
    rho*(epsilon, delta) as for zcdp_tight, and sum delta <= delta''. Guarantees
    (epsilon + epsilon', delta'' + (1 - delta'') (delta + delta'))-DP, hence
    (epsilon + epsilon', delta'' + delta + delta')-DP. Source: Rogers 2023 Thm 3, whose
    statement and proof are completed in docs/theory.md P9.
    """

    name = "split"
    error_law = "discrete_gaussian"
    parameters: ClassVar[Parameters] = {
        "epsilon_ex_post": Parameter(
            "The epsilon that filter split sets apart for ex-post claims.", "1"
        ),
        "delta_ex_post": Parameter(
            "The delta that filter split sets apart for ex-post claims.", "1e-7"
        ),
    }
    settles_ex_post = True
    sums = ("apart_rho", "apart_delta", "ex_post_epsilon", "ex_post_delta")

    def __init__(self, *, epsilon_ex_post: str | None = None, delta_ex_post: str = "0") -> None:
        """Take epsilon' and delta'.

        Raises: RequestInvalid: epsilon' is missing, or one of them is out of range.
        """
        field = "epsilon_ex_post"
        if epsilon_ex_post is None:
            raise RequestInvalid(field, "must be given for filter split", None)
        self._epsilon = parse_in(
            epsilon_ex_post, field=field, minimum=MIN_EPSILON, maximum=MAX_EPSILON, zero=False
        )
        self._delta = check_delta(delta_ex_post, "delta_ex_post")

    def delta_for_claims(self, budget: Budget) -> Decimal:
        with precise():
            return budget.delta_for_claims + self._delta

    def guarantee(self, budget: Budget) -> Guarantee:
        name, epsilon, delta = super().guarantee(budget)
        with precise():
            return Guarantee(name, epsilon + self._epsilon, delta + self._delta)

    def capacity(self, budget: Budget) -> tuple[Units, ...]:
        epsilon, delta = require_positive(budget.epsilon, "epsilon"), own_delta(budget)
        if self.guarantee(budget).delta >= 1:
            rule = "and delta must add up to less than 1"
            raise RequestInvalid("delta_ex_post", rule, str(self._delta))
        return (
            budget_down(capacity(epsilon=epsilon, delta=delta)),
            units_down(budget.delta_for_claims),
            units_down(self._epsilon),
            units_down(self._delta),
        )

    def progress(self, capacity: tuple[Units, ...], spent: tuple[Units, ...]) -> Units:
        # The budget with the larger spent part counts, in units of the first budget.
        maximum = int(capacity[0])
        return max(spent[0], int(spent[2]) * maximum // int(capacity[2]))
