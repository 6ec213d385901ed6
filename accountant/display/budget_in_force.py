"""What a budget in force does to a dataset and to its next generation, before an owner sets it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import UNSET

from accountant.display.datasets import in_force_words
from accountant.display.numbers import counted, symbol
from accountant.display.reserved_shares import breaks_shares
from accountant.errors import RequestInvalid
from accountant.policy.compiled_policy import below, budget_below
from accountant.policy.in_force import BudgetInForce
from accountant.policy.policy import Policy
from accountant.records import Decision
from accountant.views.datasets import DatasetView
from accountant.views.ledgers import ledger_of
from accountant.views.limit_views import ScopeView

_MOST_PERCENT: Final = 10_000


def lowering_words(view: DatasetView, limits: Sequence[ScopeView], budget: BudgetInForce) -> str:
    """Return that a budget in force would stop all grants, "" where it would not.

    It may be below what is spent: to stop grants is one of its uses. One that does not hold what
    is reserved for others is refused with the least amount, so nothing is to be confirmed.

    Args:
        limits: those of the dataset.
    """
    ledger = ledger_of(view)
    try:
        in_force = budget_below(ledger.plan, budget)
    except RequestInvalid:
        in_force = None
    if in_force is None:
        return ""  # refused, with the reason
    plan = below(ledger.plan, in_force)
    spent = plan.kind.progress(plan.limits, ledger.totals[: plan.width])
    if spent < plan.most or breaks_shares(view, limits, budget):
        return ""
    percent = -(-100 * int(spent) // plan.most)
    shown = f"{percent:,} %" if percent <= _MOST_PERCENT else f"over {_MOST_PERCENT:,} %"
    text = (
        f"{shown} of {symbol(budget.field)} {budget.amount} is spent already: dataset "
        f"{view.dataset} would grant nothing more, and nothing that waits for an approval, until "
        "its budget in force is raised"
    )
    held = view.open_reservations
    if not held:
        return text
    return f"{text}; {counted(held, 'open reservation')} may still begin and settle"


def changed_words(before: DatasetView | None, decision: Decision) -> list[str]:
    """Return from what to what a decision has set the budget in force.

    Args:
        before: the dataset before it, None where it could not be read.
    """
    if not decision.outcome.is_applied or before is None or decision.in_force is None:
        return []
    now, field = decision.in_force, decision.in_force.field
    ceiling = getattr(before.policy, field)
    earlier = ceiling if before.in_force is UNSET else before.in_force.amount
    sign = symbol(field)
    return [f"in force is {sign} {now.amount}, before {sign} {earlier}; the ceiling is {ceiling}"]


def renewed_budget_words(view: DatasetView, renewed_as: str, policy: Policy | None) -> str:
    """Return the budget in force of the next generation, "" where the dataset has all of its.

    Args:
        policy: the next generation's, None for that of the dataset, with its budget in force.
    """
    in_force = in_force_words(view.policy, view.in_force)
    if not in_force:
        return ""
    if policy is None:
        return f"{renewed_as} will begin with the same budget in force: {in_force}"
    return f"{renewed_as} will begin with all of its policy's budget in force"
