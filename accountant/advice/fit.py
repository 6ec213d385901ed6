"""The cost of a claim and how often it fits a budget, as a ledger would decide it."""

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
    """A compiled policy and the spent part of its budget.

    Attributes:
        plan: the compiled policy.
        spent: the spent amounts in the order of the filter's sums, in units of 1e-40.
        closed: nothing more is granted, whatever is left.
    """

    plan: CompiledPolicy
    spent: tuple[Units, ...]
    closed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """How often a claim fits, and its cost.

    Attributes:
        accepted: whether the filter takes claims of this kind at all.
        count: how many such claims fit one after another, None for no limit.
        cost: the amount that the first claim adds to the additive sum; its price if it does not
            fit, `inf` if it is not accepted.
        unit: name of that sum.
    """

    accepted: bool
    count: int | None
    cost: str
    unit: str


def unspent(plan: CompiledPolicy) -> Budget:
    """Return the budget of a compiled policy with nothing spent."""
    return Budget(plan, (0,) * plan.width)


def budget_of(view: DatasetView) -> Budget:
    """Return a dataset's budget and the spent part of it.

    Raises: LogDamaged: the view does not fit its own policy.
    """
    plan = stored_plan(view.policy, tuple(view.budget.values()), view.exact)
    _, totals = totals_from(plan, view.totals, view.rounded_up)
    return Budget(plan, totals[: plan.width], view.closed or view.halted)


def fit(claim: Claim, budget: Budget) -> Fit:
    """Return how often a claim fits the rest of a budget."""
    kind, capacity = budget.plan.kind, budget.plan.capacity
    asked = checked(claim)
    cost = price(asked, kind.needs, budget.plan.exact)
    unit = kind.sums[0]
    cap = budget.plan.cap
    of_others = asked.only_for and asked.only_for != budget.plan.policy.neighbours
    if of_others or not kind.accepts(cost):
        return Fit(accepted=False, count=0, cost="inf", unit=unit)
    after = kind.charge(capacity, budget.spent, cost)
    if after is None or (cap is not None and not cap.admits(cost)):
        return Fit(accepted=True, count=0, cost=format_units(cost.amounts[0]), unit=unit)
    grown = kind.progress(capacity, after) - kind.progress(capacity, budget.spent)
    count = 0 if budget.closed else kind.count(capacity, budget.spent, cost)
    return Fit(accepted=True, count=count, cost=format_units(grown), unit=unit)
