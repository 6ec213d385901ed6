"""How much of a budget a claim takes, and how often it fits: what `ask` would be told."""

from __future__ import annotations

from dataclasses import dataclass

from accountant.amounts import Units, format_units
from accountant.claims import Claim, checked
from accountant.claims.price import price
from accountant.ledger.snapshots import totals_from
from accountant.policy.compiled import CompiledPolicy, stored_plan
from accountant.views.datasets import DatasetView


@dataclass(frozen=True, slots=True)
class Budget:
    """A plan with what is spent of it.

    Attributes:
        plan: of a policy.
        spent: by the filter's sums, in units of 1e-40.
        closed: nothing more is granted, whatever is left.
    """

    plan: CompiledPolicy
    spent: tuple[Units, ...]
    closed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What became of the question how often a claim fits.

    Attributes:
        accepted: the filter can take claims of this kind at all.
        count: how many fit one after another, None if without end.
        cost: what the first would add to the additive unit; of one that does not fit, what its
            price asks for. `inf` where it is not accepted.
        unit: name of that unit.
    """

    accepted: bool
    count: int | None
    cost: str
    unit: str


def unspent(plan: CompiledPolicy) -> Budget:
    """Return a plan's budget as it is at opening."""
    return Budget(plan, (0,) * plan.width)


def budget_of(view: DatasetView) -> Budget:
    """Return what a dataset's budget is and what is spent of it.

    Raises: LogDamaged: the view does not fit its own policy.
    """
    plan = stored_plan(view.policy, tuple(view.budget.values()))
    _, totals = totals_from(plan, view.totals)
    return Budget(plan, totals[: plan.width], view.closed or view.halted)


def fit(claim: Claim, budget: Budget) -> Fit:
    """Return how often a claim fits what is left of a budget."""
    kind, capacity = budget.plan.kind, budget.plan.capacity
    asked = checked(claim)
    cost = price(asked, kind.needs)
    unit = kind.sums[0]
    of_others = asked.only_for and asked.only_for != budget.plan.policy.neighbours
    if of_others or not kind.accepts(cost):
        return Fit(accepted=False, count=0, cost="inf", unit=unit)
    after = kind.charge(capacity, budget.spent, cost)
    if after is None:
        return Fit(accepted=True, count=0, cost=format_units(cost.amounts[0]), unit=unit)
    grown = kind.progress(capacity, after) - kind.progress(capacity, budget.spent)
    count = 0 if budget.closed else kind.count(capacity, budget.spent, cost)
    return Fit(accepted=True, count=count, cost=format_units(grown), unit=unit)
