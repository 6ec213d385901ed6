"""The cost of a claim and how often it fits a budget, as a ledger would decide it."""

from __future__ import annotations

from dataclasses import dataclass

from accountant.amounts import Units, format_units
from accountant.claims import CheckedClaim, Claim, check_claim
from accountant.claims.price import Price, price
from accountant.filters import BesideBasic
from accountant.ledger.budgets import never_fits
from accountant.ledger.snapshots import totals_from
from accountant.policy.compiled_policy import CompiledPolicy
from accountant.views.datasets import DatasetView
from accountant.views.ledgers import plan_of


@dataclass(frozen=True, slots=True)
class PlanBudget:
    """A compiled policy and the spent part of its budget.

    Attributes:
        plan: the compiled policy.
        spent: the spent amounts in the order of the filter's sums, in units of 1e-40.
        closed: nothing more is granted, whatever is left.
        paused: nothing is granted now; what fits, fits after the pause.
    """

    plan: CompiledPolicy
    spent: tuple[Units, ...]
    closed: bool = False
    paused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """How often a claim fits, and its cost.

    Attributes:
        accepted: whether the filter takes claims of this kind at all.
        count: how many such claims fit one after another, None for no limit.
        cost: the amount that the first claim adds to the additive sum; its price if it does not
            fit, `inf` if it is not accepted.
        unit: name of that sum.
        ends: the filter that such claims end before they no longer fit, since basic composition
            beside it lets more of them in.
        ends_after: how many of them fit before that.
    """

    accepted: bool
    count: int | None
    cost: str
    unit: str
    ends: str | None = None
    ends_after: int | None = None


def unspent(plan: CompiledPolicy) -> PlanBudget:
    """Return the budget of a compiled policy with nothing spent."""
    return PlanBudget(plan, (0,) * plan.width)


def budget_of(view: DatasetView) -> PlanBudget:
    """Return a dataset's budget and the spent part of it.

    Raises: LogDamaged: the view does not fit its own policy.
    """
    plan = plan_of(view)
    _, totals = totals_from(plan, view.totals, view.rounded_up)
    return PlanBudget(plan, totals[: plan.width], view.closed or view.halted, view.paused)


def accepts(claim: Claim, budget: PlanBudget) -> bool:
    """Tell whether a claim may ever be granted under a budget's policy."""
    return _accepts(budget, check_claim(claim))


def _accepts(budget: PlanBudget, asked: CheckedClaim) -> bool:
    plan = budget.plan
    of_others = asked.only_for and asked.only_for != plan.policy.neighbours
    cost = price(asked, plan.kind.needs)
    return not of_others and not never_fits(plan.kind, plan.capacity, asked, cost)


def fit(claim: Claim, budget: PlanBudget) -> Fit:
    """Return how often a claim fits the rest of a budget."""
    kind, capacity = budget.plan.kind, budget.plan.capacity
    asked = check_claim(claim)
    cost = price(asked, kind.needs)
    unit = kind.sums[0]
    cap, brake = budget.plan.cap, budget.plan.brake
    if not _accepts(budget, asked):
        return Fit(accepted=False, count=0, cost="inf", unit=unit)
    after = kind.charge(capacity, budget.spent, cost)
    is_above = after is not None and brake is not None and not brake.admits(after)
    if after is None or is_above or (cap is not None and not cap.admits(cost)):
        return Fit(accepted=True, count=0, cost=format_units(cost.amounts[0]), unit=unit)
    grown = _own_cost(budget, after, cost)
    count = 0 if budget.closed else (brake or kind).count(capacity, budget.spent, cost)
    ends_after = _ends_after(budget, cost, count)
    return Fit(
        accepted=True,
        count=count,
        cost=format_units(grown),
        unit=unit,
        ends=None if ends_after is None else kind.name,
        ends_after=ends_after,
    )


def _own_cost(budget: PlanBudget, after: tuple[Units, ...], cost: Price) -> Units:
    """Return what a claim adds to the filter's additive sum, its price where it ends the filter."""
    kind, capacity = budget.plan.kind, budget.plan.capacity
    if isinstance(kind, BesideBasic):
        if kind.has_ended(after):
            return cost.amounts[0]
        kind = kind.kind
    width = len(kind.sums)
    before, now = budget.spent[:width], after[:width]
    return kind.progress(capacity[:width], now) - kind.progress(capacity[:width], before)


def _ends_after(budget: PlanBudget, cost: Price, count: int | None) -> int | None:
    kind = budget.plan.kind
    if not isinstance(kind, BesideBasic) or kind.has_ended(budget.spent):
        return None
    by_filter = kind.count_by_filter(budget.plan.capacity, budget.spent, cost)
    more = by_filter is not None and (count is None or count > by_filter)
    return by_filter if more else None
