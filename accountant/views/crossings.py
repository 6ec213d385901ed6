"""The alerts of one decision, for readers that do not fold those before it."""

from __future__ import annotations

from typing import Any

import msgspec

from accountant.ledger.snapshots import totals_from
from accountant.policy.compiled import stored_plan
from accountant.records import Decision
from accountant.records.outcomes import Outcome
from accountant.views.datasets import Alert, DatasetView


class _Changed(msgspec.Struct):
    """The fields of an amendment that may change what is crossed."""

    alert_at: Any = None
    policy: Any = None


_decode_changed = msgspec.json.Decoder(_Changed).decode


def may_cross(outcome: Outcome, crossed: tuple[str, ...]) -> bool:
    """Return whether a decision may have alerts."""
    return bool(crossed) or outcome is Outcome.AMENDED


def crossings(decision: Decision, view: DatasetView) -> tuple[Alert, ...]:
    """Return an alert for each threshold that a decision crossed, in their order.

    An amendment does not say which thresholds were there before. One that gives thresholds has an
    alert for each of them that is crossed: those that were told before have the same `alert_id`.
    Nor does it say whether the dataset was exhausted by then: one that `view` shows so counts as
    exhausted, for an alert that comes early is better than none.

    Args:
        view: of the decision's dataset, at that decision or later: its budget is the same from
            the first crossing on.
    """
    crossed = decision.crossed
    if not may_cross(decision.outcome, crossed) or decision.totals is None:
        return ()
    budget = decision.budget or view.budget
    plan = stored_plan(decision.policy or view.policy, tuple(budget.values()), view.exact)
    _, totals = totals_from(plan, decision.totals, decision.rounded_up)
    if decision.outcome is Outcome.AMENDED:
        changed = _decode_changed(decision.request)
        if changed.alert_at is None and changed.policy is None:
            return ()
        spent = plan.progress(totals)
        exhausted = view.exhausted or spent >= plan.capacity[0]
        crossed = plan.policy.alert_at[: plan.count_crossed(spent, exhausted=exhausted)]
    return tuple(
        [
            Alert(
                alert_id=f"{decision.dataset}/{decision.generation}/{threshold}",
                dataset=str(decision.dataset),
                generation=decision.generation or 1,
                threshold=threshold,
                spent_ratio=plan.spent_ratio(totals),
                decided_at=decision.decided_at,
            )
            for threshold in crossed
        ]
    )
