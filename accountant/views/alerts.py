"""Alerts of datasets and of their limits: of a state, of a commit and of one decision."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from heapq import nlargest
from operator import attrgetter
from typing import Any, Final

import msgspec

from accountant.ledger import Ledger
from accountant.ledger.snapshots import totals_from
from accountant.limits.applicable_limits import team_of
from accountant.limits.state import LimitRule, LimitState, amounts_from
from accountant.limits.wire import LimitRecord, LimitUpdate, Scope, level_alert_id
from accountant.partition import Partition
from accountant.partition.ids import decode_identity
from accountant.policy.compiled_policy import CompiledPolicy, stored_plan
from accountant.records import Decision, decode_decision
from accountant.records.encoded_decision import CountedDecision, EncodedDecision, by_dataset
from accountant.records.outcomes import GRANTS, Outcome
from accountant.times import iso
from accountant.views.datasets import Alert, DatasetView, SeenAlerts, alerts, view_of_ledger
from accountant.views.follow import alerts_of_run, runs
from accountant.views.limit_views import LevelView

MAX_USES_AGAIN: Final = 1_000
"""Analysts under defaults, of each dataset, that the state reports: those that used it
last, since what they crossed is what may not have got out."""

Rules = Callable[[Scope, str | None], LimitRule | None]
"""Returns the last record about a scope and name, None where that is not known."""

_TELLS: Final = frozenset({Outcome.AMENDED, Outcome.LIMIT_SET})


class _AmendedFields(msgspec.Struct):
    """The fields of an amendment that may change what is crossed."""

    alert_at: Any = None
    policy: Any = None


_decode_changed = msgspec.json.Decoder(_AmendedFields).decode


def _of_grant(
    decision: Decision, plan: CompiledPolicy | None = None, rules: Rules = lambda *_: None
) -> list[Alert]:
    """Return an alert for each threshold that a grant has reached at a level, in their order.

    `spent_ratio` is what the level has spent after the grant, where `rules` has the version of the
    limit that the grant was charged to; else the threshold, which is the least that it can be.

    Args:
        plan: the dataset's policy, now or at that time: amounts of limits do not depend on it.
    """
    found: list[Alert] = []
    for moved in decision.levels:
        if not moved.crossed:
            continue
        analyst = None
        if moved.scope == "each":
            analyst = decode_identity(decision.request).analyst
        ratio = _ratio(moved, plan, rules(moved.scope, moved.name))
        found += [
            _alert(
                (str(decision.dataset), decision.generation or 1),
                moved,
                threshold,
                float(threshold) if ratio is None else ratio,
                decision.decided_at,
                analyst,
            )
            for threshold in moved.crossed
        ]
    return found


def limit_alerts_of_grants(run: Iterable[CountedDecision]) -> list[Alert]:
    """Return the alerts of limits of the grants among some decisions, where no limit is known."""
    return [
        alert
        for each in run
        if each.crossed and each.outcome in GRANTS
        for alert in _of_grant(decode_decision(each.value))
    ]


def _ratio(moved: LimitUpdate, plan: CompiledPolicy | None, rule: LimitRule | None) -> float | None:
    if plan is None or rule is None or rule.record.version != moved.version:
        return None
    limit = rule.under(plan).limit
    if limit is None or moved.totals is None:
        return None
    return limit.spent_ratio(amounts_from(moved.totals, moved.rounded_up))


def _of_limit(ledger: Ledger, level: LimitState, rule: LimitRule) -> list[Alert]:
    """Return an alert for each threshold that what is used under a limit has reached."""
    plan, counted = ledger.plan, level.counted
    limit = rule.under(plan).limit
    # What was counted for another filter does not count.
    if limit is None or counted is None or counted.since != rule.counted_since:
        return []
    used = counted.amounts
    reached = limit.count_reached(used)
    if not reached:
        return []
    ratio, at = limit.spent_ratio(used), iso(ledger.changed_at)
    place = ledger.dataset, ledger.generation
    analyst = level.name if level.team else None
    alert_at = plan.policy.alert_at[:reached]
    return [_alert(place, rule.record, each, ratio, at, analyst) for each in alert_at]


def rules_of(views: Iterable[LevelView]) -> Rules:
    """Return the limits of a dataset, for readers that have only views."""
    known = {(view.scope, view.name): view for view in views}

    def rule_of(scope: Scope, name: str | None) -> LimitRule | None:
        view = known.get((scope, name))
        if view is None:
            return None
        record = LimitRecord(scope, name, view.version, view.part, view.policy, view.budget)
        return LimitRule(record)

    return rule_of


def limit_alerts_of_view(dataset: DatasetView, level: LevelView) -> list[Alert]:
    """As `crossed_at_level`, for readers of views; nothing for an unused default."""
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
    partition: Partition, dataset: str | None = None, *, most_uses: int = MAX_USES_AGAIN
) -> list[Alert]:
    """Return the alerts of every limit in force, and of analysts under defaults those used last.

    Another thread may move the partition meanwhile.

    Args:
        dataset: this one's alone.
        most_uses: how many analysts under defaults are reported, of each dataset.
    """
    if not partition.levels.levels:
        return []
    found: list[Alert] = []
    uses: dict[str, list[LimitState]] = {}
    for level in partition.levels.levels.copy().values():
        if level.counted is None or dataset not in {None, level.dataset}:
            continue
        if level.team:
            uses.setdefault(level.dataset, []).append(level)
            continue
        ledger = partition.ledgers.get(level.dataset)
        if ledger is not None and level.rule is not None:
            found += _of_limit(ledger, level, level.rule)
    for name, each in uses.items():
        ledger = partition.ledgers.get(name)
        if ledger is not None:
            last = nlargest(most_uses, each, key=attrgetter("sequence"))
            found += _of_uses(partition, ledger, last)
    return found


def _of_uses(partition: Partition, ledger: Ledger, uses: Iterable[LimitState]) -> Iterator[Alert]:
    for level in uses:
        rule = _default(partition, level)
        if rule is not None:
            yield from _of_limit(ledger, level, rule)


def _default(partition: Partition, use: LimitState) -> LimitRule | None:
    """Return the default that an analyst is under now, None where it is another or none."""
    dataset, analyst = use.dataset, use.name
    own = partition.levels.get((dataset, "analyst", "", analyst))
    member = partition.members.get(dataset, analyst)
    if (own is not None and own.is_in_force) or use.team != team_of(member, partition.decided_at):
        return None
    default = partition.levels.get((dataset, "each", "", use.team))
    return None if default is None else default.rule


def limit_alerts_of_commit(run: Sequence[EncodedDecision], partition: Partition) -> list[Alert]:
    """Return the alerts of levels that some decisions on one dataset give rise to.

    Args:
        run: in the order of the log.
        partition: as the last of them, or a later one of the same commit, has left it.
    """
    found: list[Alert] = []
    for each in run:
        if not each.crossed and each.outcome not in _TELLS:
            continue
        ledger = partition.ledgers.get(str(each.dataset))
        if ledger is None or not ledger.levels:
            continue
        decision = each.decision
        if decision.levels:
            found += _of_grant(decision, ledger.plan, _rules(partition, ledger.dataset))
        elif decision.limit is not None:
            found += _of_record(partition, ledger, decision.limit)
        elif each.outcome is Outcome.AMENDED:
            found += limit_alerts_of_state(partition, ledger.dataset)
    return found


def _of_record(partition: Partition, ledger: Ledger, record: LimitRecord) -> list[Alert]:
    level = partition.levels.get((ledger.dataset, record.scope, "", record.name or ""))
    if level is None or level.rule is None or level.rule.record.version != record.version:
        return []  # a later record of the same commit has replaced it
    return _of_limit(ledger, level, level.rule)


def _rules(partition: Partition, dataset: str) -> Rules:
    def rule_of(scope: Scope, name: str | None) -> LimitRule | None:
        level = partition.levels.get((dataset, scope, "", name or ""))
        return None if level is None else level.rule

    return rule_of


def _alert(
    place: tuple[str, int],
    level: LimitUpdate | LimitRecord,
    threshold: str,
    ratio: float,
    at: str,
    analyst: str | None,
) -> Alert:
    dataset, generation = place
    return Alert(
        alert_id=level_alert_id(dataset, generation, level, threshold, analyst=analyst),
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


def may_alert_of_limits(outcome: Outcome, levels: Sequence[LimitUpdate]) -> bool:
    """Return whether a decision may have alerts of levels."""
    tells = outcome is Outcome.AMENDED or outcome is Outcome.LIMIT_SET
    return tells or any(level.crossed for level in levels)


def limit_alerts_of_decision(
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
        return _of_grant(decision, _plan(decision, view), rules_of(levels))
    record = decision.limit
    if record is None and not _gives_thresholds(decision):
        return []
    return [
        alert
        for level in levels
        if record is None or (level.scope, level.name, level.version) == _limit_id(record)
        for alert in limit_alerts_of_view(view, level)
    ]


def may_alert(outcome: Outcome, crossed: tuple[str, ...]) -> bool:
    """Return whether a decision may have alerts."""
    return bool(crossed) or outcome is Outcome.AMENDED


def alerts_of_decision(decision: Decision, view: DatasetView) -> tuple[Alert, ...]:
    """Return an alert for each threshold that a decision crossed, in their order.

    An amendment does not say which thresholds were there before. One that gives thresholds has an
    alert for each of them that is crossed: those reported earlier have the same `alert_id`.
    Nor does it say whether the dataset was exhausted by then: one that `view` shows so counts as
    exhausted, for an alert that comes early is better than none.

    Args:
        view: of the decision's dataset, at that decision or later: its budget is the same from
            the first crossing on.
    """
    crossed = decision.crossed
    if not may_alert(decision.outcome, crossed) or decision.totals is None:
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


def _limit_id(record: LimitRecord) -> tuple[Scope, str | None, int]:
    return record.scope, record.name, record.version


class OwnAlerts:
    """Tells of each threshold once, whatever is begun or taken in again."""

    def __init__(self) -> None:
        self._ledgers: dict[str, Ledger] = {}
        self._seen_alerts = SeenAlerts()

    def begin(self, partition: Partition) -> list[Alert]:
        """Continue from a state that was read back; return its alerts not yet reported."""
        self._ledgers = dict(partition.ledgers)
        return self._seen_alerts.take(alerts_of_state(partition))

    def take(self, records: Sequence[EncodedDecision], partition: Partition) -> list[Alert]:
        """Take in the decisions of one commit; return the thresholds that they crossed.

        Args:
            records: in the order of the log.
            partition: as the commit left it.
        """
        found: list[Alert] = []
        for name, run in runs(by_dataset(records)).items():
            after = partition.ledgers.get(name)
            if after is None:
                continue
            before = self._ledgers.get(name)
            self._ledgers[name] = after
            if before is None or before.crossed != after.crossed or before.plan is not after.plan:
                view = None if before is None else view_of_ledger(before)
                found += alerts_of_run(view, run)[1]
            if after.levels:
                found += limit_alerts_of_commit(run, partition)
        return self._seen_alerts.take(found) if found else found


def alerts_of_state(partition: Partition) -> list[Alert]:
    """Return an alert for each threshold that a state has crossed; any thread may ask."""
    return _alerts_of_ledgers(partition.ledgers.copy()) + limit_alerts_of_state(partition)


def _alerts_of_ledgers(ledgers: Mapping[str, Ledger]) -> list[Alert]:
    """Return an alert for each threshold that datasets themselves have crossed."""
    return [
        alert
        for ledger in ledgers.values()
        if ledger.crossed
        for alert in alerts(None, view_of_ledger(ledger))
    ]
