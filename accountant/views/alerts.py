"""Alerts: of one decision, and of what a limit has reached by now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import TypeVar

import msgspec

from accountant.partition.ids import analyst_charged
from accountant.records import Decision
from accountant.records.header import DecisionHeader
from accountant.records.limit_records import (
    LimitRecord,
    LimitUpdate,
    ReachedLimit,
    ShareCut,
    Texts,
    scope_alert_id,
)
from accountant.records.outcomes import Outcome
from accountant.records.parts import by_dataset
from accountant.records.request_names import decode_ask
from accountant.views.datasets import Alert, Approval, DatasetView, alert_id_of
from accountant.views.limit_views import ScopeView
from accountant.views.pending import PendingView

D = TypeVar("D", bound=Decision | DecisionHeader)


def alerts_of(decision: D) -> list[Alert]:
    """Return an alert for each threshold that a decision is the first to reach, or of its ask.

    Then come those of the shares that it cuts, and of the request that waits or is answered. The
    decision says all that they show. Who may see one: `visibility.sees_alert`.
    """
    return [alert for part in by_dataset(decision) for alert in _alerts_of_part(part)]


def _alerts_of_part(part: Decision | DecisionHeader) -> Iterator[Alert]:
    """Yield the alerts of a decision as one dataset sees it: the dataset's own come first."""
    dataset, generation, at = str(part.dataset), part.generation or 1, part.decided_at
    for threshold in part.crossed:
        yield Alert(
            alert_id=alert_id_of(dataset, generation, threshold, part.in_force),
            dataset=dataset,
            generation=generation,
            threshold=threshold,
            spent_ratio=part.spent_ratio or 0.0,
            decided_at=at,
        )
    place = dataset, generation
    for level in part.levels:
        analyst = analyst_charged(part) if level.crossed and level.scope == "each" else None
        for threshold in level.crossed:
            yield _alert(place, level, threshold, level.spent_ratio or 0.0, at, analyst)
    if part.outcome.asks_owners:
        yield _alert_of_ask(place, part)
    for reached in part.reached:
        for threshold in reached.crossed:
            yield _alert(place, reached, threshold, reached.spent_ratio, at, reached.analyst)
    for share in part.shares_cut:
        yield _cut_alert(place, share, share.cut, part.sequence or 0, at)
    said = part.pending
    if said is not None:
        yield approval_alert(
            place,
            _answer_of(part.outcome),
            part.sequence or 0,
            said.analyst,
            at,
            said.until,
            said.by,
        )


def _answer_of(outcome: Outcome) -> Approval:
    if outcome.waits:
        return "pending"
    return "approved" if outcome.charges else "denied"


def alerts_of_waiting(dataset: DatasetView, waiting: Iterable[PendingView]) -> list[Alert]:
    """Return an alert for each request that waits now."""
    place = dataset.dataset, dataset.generation
    return [
        approval_alert(place, "pending", each.sequence, each.analyst, each.pending_at, each.until)
        for each in waiting
    ]


def _alert_of_ask(place: tuple[str, int], part: Decision | DecisionHeader) -> Alert:
    """Return the alert of a new ask, without its text: that is for those who read the dataset."""
    dataset, generation = place
    record, number = decode_ask(part.request), part.sequence or 0
    return Alert(
        alert_id=f"{dataset}/{generation}/ask/{number}",
        dataset=dataset,
        generation=generation,
        threshold="",
        spent_ratio=0.0,
        decided_at=part.decided_at,
        ask=number,
        asker=record.by,
        wants=record.wants,
    )


def limit_alerts_of_view(dataset: DatasetView, level: ScopeView) -> list[Alert]:
    """Return an alert for each threshold that a limit has reached now, none of a default itself.

    The last cut of its share has one, too.
    """
    record, ratio, share = LimitRecord(level.scope, level.name, level.version), 0.0, level.reserved
    place, at = (dataset.dataset, dataset.generation), dataset.last_decided_at
    reached, found = tuple[str, ...](), list[Alert]()
    if level.spent_ratio is not None:
        ratio, reached = level.spent_ratio, dataset.policy.alert_at
    for each in reached:
        if Fraction(each) <= ratio:
            found.append(_alert(place, record, each, ratio, at, level.analyst))
    if share is not None and share.cut is not None and share.cut_by is not None:
        found.append(_cut_alert(place, record, share.cut, share.cut_by, at))
    return found


def approval_alert(
    place: tuple[str, int],
    approval: Approval,
    sequence: int,
    analyst: str,
    at: str,
    until: str,
    by: str | None = None,
) -> Alert:
    """Return the alert that a request waits for an owner's approval, or that it is answered.

    Args:
        place: dataset and generation.
        sequence: number of the dataset's decision that says so; `alert_id` ends with it.
        analyst, at, until, by: as of `Alert`.
    """
    dataset, generation = place
    return Alert(
        alert_id=f"{dataset}/{generation}/{approval}/{sequence}",
        dataset=dataset,
        generation=generation,
        threshold="",
        spent_ratio=0.0,
        decided_at=at,
        analyst=analyst,
        approval=approval,
        until=until,
        by=by,
    )


def _alert(
    place: tuple[str, int],
    level: LimitUpdate | ReachedLimit | LimitRecord | ShareCut,
    threshold: str,
    ratio: float,
    at: str,
    analyst: str | None,
) -> Alert:
    dataset, generation = place
    return Alert(
        alert_id=scope_alert_id(dataset, generation, level, threshold, analyst=analyst),
        dataset=dataset,
        generation=generation,
        threshold=threshold,
        spent_ratio=ratio,
        decided_at=at,
        scope=level.scope,
        name=level.name,
        analyst=analyst,
        team=level.name if level.scope in {"team", "each"} else None,
        version=level.version,
    )


def _cut_alert(
    place: tuple[str, int],
    share: ShareCut | LimitRecord,
    cut: Texts,
    sequence: int,
    at: str,
) -> Alert:
    """Return the alert of a share that the dataset's decision `sequence` has cut."""
    alert = _alert(place, share, f"cut/{sequence}", 0.0, at, None)
    return msgspec.structs.replace(alert, threshold="", cut=cut)
