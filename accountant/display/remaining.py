"""The part of a dataset's budget that remains after a decision."""

from __future__ import annotations

from accountant.display.numbers import unspent_percent
from accountant.ledger.snapshots import totals_from
from accountant.policy.compiled_policy import stored_plan
from accountant.records import Decision
from accountant.views.datasets import DatasetView


def remaining_after(decision: Decision, view: DatasetView) -> str | None:
    """Return the remaining percentage after a decision, None for one without totals.

    Args:
        view: of the dataset, of any time: a grant fixes its budget.
    """
    if decision.totals is None:
        return None
    plan = stored_plan(view.policy, tuple(view.budget.values()))
    _, totals = totals_from(plan, decision.totals, decision.rounded_up)
    return unspent_percent(plan.spent_ratio(totals))
