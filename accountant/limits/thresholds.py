"""Which thresholds of a limit were reported, and which a decision is the first to reach.

A decision reports a threshold of a limit once: a reservation that is voided and made again reports
nothing twice. The next grant reports what was reached without a report.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple

import msgspec

from accountant.limits.applicable_limits import counted_under, team_of
from accountant.limits.compiled_limit import CompiledLimit
from accountant.limits.reserved_totals import Sums
from accountant.limits.state import Key, LimitRule, LimitState, Reported
from accountant.limits.store import LimitStore
from accountant.policy.compiled_policy import CompiledPolicy
from accountant.records.limit_records import LimitUpdate, ReachedLimit
from accountant.records.members import MemberRow

MAX_REACHED: Final = 100
"""The most limits and analysts that one decision names."""
MAX_REACHED_BYTES: Final = 32_768
"""The most bytes that naming them may take: a larger record could halt its partition."""

_SCOPES: Final = ("dataset", "team", "analyst", "each")
_encode = msgspec.json.Encoder().encode


def reported_before(
    state: LimitState, rule: LimitRule, limit: CompiledLimit, spent: Sums
) -> Reported:
    """Return the thresholds that a limit need not report again, under its version of now.

    Of those that earlier versions have reported, these are the ones that are reached there, too.

    Args:
        rule: the limit's own, or the team's per-analyst default.
        limit: of that rule.
        spent: what counts under it.
    """
    reported = state.reported
    version = rule.record.version
    if reported is None:
        return Reported(version, ())
    if reported.version == version:
        return reported
    earlier = (*reported.earlier, *reported.ratios)
    return Reported(version, (), tuple([each for each in earlier if limit.reaches(each, spent)]))


def reported_after(
    alert_at: tuple[str, ...], before: Reported, crossed: Collection[str]
) -> Reported:
    """Return the reported thresholds after a decision; those that are none any more are left out.

    Args:
        alert_at: the dataset's thresholds.
        before: as `reported_before` returned.
        crossed: reported by this decision.
    """
    ratios = [each for each in alert_at if each in before.ratios or each in crossed]
    earlier = [each for each in alert_at if each in before.earlier]
    return Reported(before.version, tuple(ratios), tuple(earlier))


def crossed_by(
    state: LimitState,
    rule: LimitRule,
    limit: CompiledLimit,
    alert_at: tuple[str, ...],
    before: Sums,
    after: Sums,
) -> tuple[str, ...]:
    """Return the thresholds that a decision is the first to reach at a limit.

    Args:
        state: before the decision.
        before, after: what counts under the limit, without what the decision charges and with it.
    """
    reached = alert_at[: limit.count_reached(after)]
    if not reached:
        return ()
    known = reported_before(state, rule, limit, before)
    return tuple([each for each in reached if not known.has(each)])


class ReachedLimits(NamedTuple):
    """What an amendment, or a new version of a limit, reports about limits.

    Attributes:
        named: those that the decision names.
        more: how many more there are. The next grant reports each of them.
        states: of the named ones, after the decision.
    """

    named: tuple[ReachedLimit, ...]
    more: int
    states: tuple[LimitState, ...]


def reached_limits(
    states: Iterable[LimitState],
    store: LimitStore,
    lookup: Callable[[str], MemberRow | None],
    plan: CompiledPolicy,
    at: int,
    sequence: int,
) -> ReachedLimits:
    """Return the limits that reach a threshold which no decision has reported yet.

    Args:
        states: of one dataset: limits, and analysts' usage under defaults.
        lookup: of the dataset's members.
        plan: the dataset's policy after the decision.
        at: the decision's time, milliseconds since 1970.
        sequence: the decision's number in the dataset.
    """
    named, after, size, more = list[ReachedLimit](), list[LimitState](), 0, 0
    for state in sorted(states, key=_order):
        rule = rule_in_force(state, store, lookup, at)
        reached = None if rule is None else _reached(state, rule, plan)
        if rule is None or reached is None:
            continue
        size += len(_encode(reached))
        if more or len(named) == MAX_REACHED or size > MAX_REACHED_BYTES:
            more += 1
            continue
        named.append(reached)
        after.append(with_reported(state, state, rule, plan, reached.crossed, sequence))
    return ReachedLimits(tuple(named), more, tuple(after))


def _order(state: LimitState) -> tuple[int, str, str]:
    return _SCOPES.index(state.scope), state.team, state.name


def rule_in_force(
    state: LimitState, store: LimitStore, lookup: Callable[[str], MemberRow | None], at: int
) -> LimitRule | None:
    """Return the rule that a limit has, or that an analyst's usage under a default has now.

    None where the analyst is in another team by now, or has an own limit.
    """
    if not state.team:
        return state.rule
    own = store.get((state.dataset, "analyst", "", state.name))
    if (own is not None and own.is_in_force) or team_of(lookup(state.name), at) != state.team:
        return None
    default = store.get((state.dataset, "each", "", state.team))
    return None if default is None else default.rule


def _reached(state: LimitState, rule: LimitRule, plan: CompiledPolicy) -> ReachedLimit | None:
    limit, record = rule.under(plan).limit, rule.record
    if limit is None or state.counted is None:
        return None
    spent = counted_under(state, rule, limit)
    crossed = crossed_by(state, rule, limit, plan.policy.alert_at, spent, spent)
    if not crossed:
        return None
    analyst = state.name if state.team else None
    ratio = limit.spent_ratio(spent)
    return ReachedLimit(record.scope, record.name, record.version, crossed, ratio, analyst)


def with_reported(
    before: LimitState,
    after: LimitState,
    rule: LimitRule,
    plan: CompiledPolicy,
    crossed: Collection[str],
    sequence: int,
) -> LimitState:
    """Return a limit's state after a decision has reported thresholds.

    Args:
        before, after: the state without what the decision charges, and with it.
    """
    limit = rule.under(plan).limit
    if limit is None:
        return after
    known = reported_before(before, rule, limit, counted_under(before, rule, limit))
    reported = reported_after(plan.policy.alert_at, known, crossed)
    return msgspec.structs.replace(after, sequence=sequence, reported=reported)


def key_of(dataset: str, named: LimitUpdate | ReachedLimit, analyst: str) -> Key:
    """Return the key of the state that a decision names.

    Args:
        analyst: under a default: whose usage it is.
    """
    name = named.name or ""
    return (
        (dataset, "each", name, analyst)
        if named.scope == "each"
        else (dataset, named.scope, "", name)
    )
