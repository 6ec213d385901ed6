"""The alerts of one decision, for readers that do not fold those before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from accountant.ledger.snapshots import totals_from
from accountant.limits.wire import LevelCrossed, LevelMoved, LimitRecord, Scope
from accountant.policy.compiled import CompiledPolicy, stored_plan
from accountant.records import Decision
from accountant.records.outcomes import Outcome
from accountant.views.datasets import Alert, DatasetView
from accountant.views.level_alerts import crossed_by_grant, crossed_in_view, rules_of
from accountant.views.limit_views import LevelView


class _Changed(msgspec.Struct):
    """The fields of an amendment that may change what is crossed."""

    alert_at: Any = None
    policy: Any = None


_decode_changed = msgspec.json.Decoder(_Changed).decode


def may_cross_levels(outcome: Outcome, levels: Sequence[LevelCrossed | LevelMoved]) -> bool:
    """Return whether a decision may have alerts of levels."""
    tells = outcome is Outcome.AMENDED or outcome is Outcome.LIMIT_SET
    return tells or any(level.crossed for level in levels)


def level_crossings(
    decision: Decision, view: DatasetView, levels: Sequence[LevelView]
) -> list[Alert]:
    """Return an alert for each threshold of a level that a decision crossed.

    A record that sets a limit, and an amendment that gives thresholds, have an alert for each
    that is crossed, by what is used now: perhaps by later grants, which have it then as well.

    Args:
        view: of the decision's dataset, at that decision or later.
        levels: its limits in force, at that decision or later. Of a limit that was replaced since,
            an alert has its threshold for `spent_ratio`.
    """
    if decision.levels:
        return crossed_by_grant(decision, _plan(decision, view), rules_of(levels))
    told = decision.limit
    if told is None and not _gives_thresholds(decision):
        return []
    return [
        alert
        for level in levels
        if told is None or (level.scope, level.name, level.version) == _named(told)
        for alert in crossed_in_view(view, level)
    ]


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
    plan = _plan(decision, view)
    _, totals = totals_from(plan, decision.totals, decision.rounded_up)
    if decision.outcome is Outcome.AMENDED:
        if not _gives_thresholds(decision):
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


def _gives_thresholds(decision: Decision) -> bool:
    changed = _decode_changed(decision.request)
    return changed.alert_at is not None or changed.policy is not None


def _plan(decision: Decision, view: DatasetView) -> CompiledPolicy:
    budget = decision.budget or view.budget
    return stored_plan(decision.policy or view.policy, tuple(budget.values()))


def _named(told: LimitRecord) -> tuple[Scope, str | None, int]:
    return told.scope, told.name, told.version
