"""What reserved shares withhold from everybody else, and the least budget that still holds it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Final

from accountant.amounts import INFINITE, format_units
from accountant.display.numbers import remaining_amount, spent_amount
from accountant.errors import RequestInvalid
from accountant.fractional import round_up_amounts
from accountant.policy.compiled_policy import CompiledPolicy, below, budget_below
from accountant.policy.in_force import BudgetInForce
from accountant.records.limit_records import Scope
from accountant.views.datasets import DatasetView
from accountant.views.ledgers import ledger_of
from accountant.views.limit_views import ScopeView, ShareView

Shares = Mapping[tuple[Scope, str | None], ShareView]
"""Reserved shares by scope and name."""
_STEPS: Final = 24


def shares_in(limits: Iterable[ScopeView]) -> dict[tuple[Scope, str | None], ShareView]:
    """Return the reserved shares of limits."""
    return {(each.scope, each.name): each.reserved for each in limits if each.reserved}


def withheld(shares: Shares, name: str) -> Fraction:
    """Return what shares reserve of one sum; an analyst's lies within the team's."""
    alone, teams, inside = Fraction(0), dict[str, Fraction](), dict[str, Fraction]()
    for (scope, of), share in shares.items():
        unused = Fraction(share.left[name])
        if scope == "team":
            teams[str(of)] = unused
        elif share.team:
            inside[share.team] = inside.get(share.team, Fraction(0)) + unused
        else:
            alone += unused
    names = teams.keys() | inside.keys()
    return alone + sum(max(teams.get(t, Fraction(0)), inside.get(t, Fraction(0))) for t in names)


def breaks_shares(view: DatasetView, limits: Iterable[ScopeView], budget: BudgetInForce) -> bool:
    """Tell whether a smaller budget in force would not hold what is spent and reserved.

    Shares that are used up reserve nothing, and refuse no budget.
    """
    shares, plan = shares_in(limits), ledger_of(view).plan
    if not any(withheld(shares, name) for name in plan.kind.sums):
        return False
    return not _holds(plan, budget, _needed(view, shares))


def least_in_force(view: DatasetView, limits: Iterable[ScopeView]) -> str:
    """Return the least budget in force that holds what is spent and reserved, with four digits.

    "" where it is not known.
    """
    plan, field = ledger_of(view).plan, view.policy.budget_field
    try:
        needed = _needed(view, shares_in(limits))
        below_it, holds = Decimal(0), Decimal(view.policy.amount)
    except (ValueError, ArithmeticError):  # not every sum is finite
        return ""
    for _ in range(_STEPS):
        middle = (below_it + holds) / 2
        if _holds(plan, BudgetInForce(**{field: f"{middle:f}"}), needed):
            holds = middle
        else:
            below_it = middle
    for shown in (remaining_amount(holds), spent_amount(holds)):
        amount = f"{Decimal(shown):f}"
        if _holds(plan, BudgetInForce(**{field: amount}), needed):
            return amount
    return ""


def _needed(view: DatasetView, shares: Shares) -> list[Fraction]:
    """Return what each sum of the filter must hold.

    Raises: ValueError: a sum has no bound.
    """
    ledger = ledger_of(view)
    spent = round_up_amounts(ledger.spent)
    if INFINITE in spent:
        raise ValueError("a sum has no bound")
    names = ledger.plan.kind.sums
    return [
        Fraction(format_units(amount)) + (withheld(shares, name) if shares else 0)
        for name, amount in zip(names, spent, strict=True)
    ]


def _holds(plan: CompiledPolicy, budget: BudgetInForce, needed: list[Fraction]) -> bool:
    try:
        in_force = budget_below(plan, budget)
    except RequestInvalid:
        return False
    if in_force is None:
        return False
    limits = below(plan, in_force).limits
    return all(
        limit == INFINITE or need <= Fraction(format_units(limit))
        for limit, need in zip(limits, needed, strict=True)
    )
