"""Alerts: of one decision, and again of a state after a start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import partial
from heapq import nlargest
from operator import attrgetter
from typing import Final, TypeVar

from accountant.dataset_ledger import DatasetLedger
from accountant.limits.applicable_limits import counted_under
from accountant.limits.state import LimitRule, LimitState
from accountant.limits.thresholds import rule_in_force
from accountant.partition import Partition
from accountant.partition.ids import analyst_charged
from accountant.records import Decision
from accountant.records.encoded_decision import CountedDecision
from accountant.records.header import DecisionHeader, decode_header
from accountant.records.limit_records import LimitRecord, LimitUpdate, ReachedLimit, scope_alert_id
from accountant.records.parts import by_dataset
from accountant.times import iso
from accountant.views.datasets import Alert, DatasetView, alerts, view_of_ledger
from accountant.views.limit_views import ScopeView

D = TypeVar("D", Decision, DecisionHeader)

MAX_USES_AGAIN: Final = 1_000
"""Analysts under defaults, of each dataset, that the state reports: those that used it
last, since what they reached is what may not have got out."""


def alerts_of(decision: D) -> list[Alert]:
    """Return an alert for each threshold that a decision is the first to reach, in their order.

    The decision says all that they show. Who may see one: `visibility.sees_alert`.
    """
    return [alert for part in by_dataset(decision) for alert in _alerts_of_part(part)]


def alerts_of_run(run: Iterable[CountedDecision]) -> list[Alert]:
    """Return the alerts of some decisions, in the order of the log."""
    return [alert for each in run if each.crossed for alert in alerts_of(decode_header(each.value))]


def _alerts_of_part(part: Decision | DecisionHeader) -> Iterator[Alert]:
    """Yield the alerts of a decision as one dataset sees it: the dataset's own come first."""
    dataset, generation, at = str(part.dataset), part.generation or 1, part.decided_at
    for threshold in part.crossed:
        yield Alert(
            alert_id=f"{dataset}/{generation}/{threshold}",
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
    for reached in part.reached:
        for threshold in reached.crossed:
            yield _alert(place, reached, threshold, reached.spent_ratio, at, reached.analyst)


def _of_limit(ledger: DatasetLedger, level: LimitState, rule: LimitRule) -> list[Alert]:
    """Return an alert for each threshold that a limit has reported, with what is used now."""
    limit, reported = rule.under(ledger.plan).limit, level.reported
    if limit is None or reported is None or reported.version != rule.record.version:
        return []
    ratio, at = limit.spent_ratio(counted_under(level, rule, limit)), iso(ledger.changed_at)
    place = ledger.dataset, ledger.generation
    analyst = level.name if level.team else None
    alert_at = ledger.plan.policy.alert_at
    ratios = [each for each in reported.ratios if each in alert_at]
    return [_alert(place, rule.record, each, ratio, at, analyst) for each in ratios]


def limit_alerts_of_view(dataset: DatasetView, level: ScopeView) -> list[Alert]:
    """Return an alert for each threshold that a limit has reached now; none of a default itself."""
    ratio = level.spent_ratio
    if ratio is None:
        return []
    record = LimitRecord(level.scope, level.name, level.version)
    place, at = (dataset.dataset, dataset.generation), dataset.last_decided_at
    return [
        _alert(place, record, each, ratio, at, level.analyst)
        for each in dataset.policy.alert_at
        if Fraction(each) <= ratio
    ]


def limit_alerts_of_state(
    partition: Partition, *, most_uses: int = MAX_USES_AGAIN
) -> Iterator[Alert]:
    """Yield the alerts of every limit in force, and of analysts under defaults those used last.

    Another thread may move the partition meanwhile.

    Args:
        most_uses: how many analysts under defaults are reported, of each dataset.
    """
    for name, ledger in partition.ledgers.copy().items():
        if not ledger.levels:
            continue
        states = partition.levels.of_dataset(name)
        uses = [each for each in states if each.team]
        last = nlargest(most_uses, uses, key=attrgetter("sequence"))
        lookup = partial(partition.members.get, name)
        for state in (*[each for each in states if not each.team], *last):
            rule = rule_in_force(state, partition.levels, lookup, partition.decided_at)
            if rule is not None:
                yield from _of_limit(ledger, state, rule)


def _alert(
    place: tuple[str, int],
    level: LimitUpdate | ReachedLimit | LimitRecord,
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


def alerts_of_state(partition: Partition) -> list[Alert]:
    """Return an alert for each threshold that a state has reached; any thread may call this."""
    of_datasets = [
        alert
        for ledger in partition.ledgers.copy().values()
        if ledger.crossed
        for alert in alerts(None, view_of_ledger(ledger))
    ]
    return [*of_datasets, *limit_alerts_of_state(partition)]
