"""Which limits apply to a request, and how much remains under each."""

from __future__ import annotations

from typing import NamedTuple

from accountant.claims.price import Price
from accountant.dataset_ledger import DatasetLedger
from accountant.limits.compiled_limit import CompiledLimit, CompiledLimits, reserved_of
from accountant.limits.reserved_totals import Sums, any_reserved, minus, plus
from accountant.limits.state import Key, LimitRule, LimitState
from accountant.limits.store import LimitStore, of_team
from accountant.policy.compiled_policy import CompiledPolicy
from accountant.records.limit_records import LimitRemaining, Texts
from accountant.records.members import MemberRow
from accountant.times import ClockResets, iso


class ApplicableLimit(NamedTuple):
    """One limit that applies, with its usage at one moment.

    Attributes:
        state: after the last decision that changed it.
        rule: for an analyst under a per-analyst default, the team's rule.
        compiled: the limit and the period limit, ready to decide with.
        counted, period_used: used under the limit, and in the current period.
        period: the number of the current period; 0 without a period limit.
    """

    state: LimitState
    rule: LimitRule
    compiled: CompiledLimits
    counted: Sums
    period_used: Sums
    period: int


class ApplicableLimits(NamedTuple):
    """The limits that apply to an analyst's requests on one dataset.

    Attributes:
        limits: in the order in which they are checked.
        reserved: the reserved shares of others, in the dataset's sums; empty for none.
        former_team: the team that the analyst has left, if its share still contains theirs.
        own_unused: the unused part of the analyst's own share.
        resets: number of clock resets.
    """

    limits: tuple[ApplicableLimit, ...]
    reserved: Sums = ()
    former_team: LimitState | None = None
    own_unused: Sums = ()
    resets: int = 0

    @property
    def budgets(self) -> list[tuple[CompiledLimit, Sums]]:
        """Each budget that must admit a request, with its usage: per limit, then its period's."""
        budgets = []
        for each in self.limits:
            limit, period_limit = each.compiled
            if limit is not None:
                budgets.append((limit, each.counted))
            if period_limit is not None:
                budgets.append((period_limit, each.period_used))
        return budgets


def limit_at(
    state: LimitState, rule: LimitRule, plan: CompiledPolicy, at: int, resets: ClockResets
) -> ApplicableLimit:
    """Return a limit with its usage at a time. Usage of an earlier rule or period does not count.

    Args:
        at: milliseconds since 1970.
        resets: those of the partition's clock.
    """
    compiled = rule.under(plan)
    spent: Sums = ()
    if compiled.limit is not None:
        spent = counted_under(state, rule, compiled.limit)
    periods, usage = rule.periods, state.period_usage
    if compiled.period_limit is None or periods is None:
        return ApplicableLimit(state, rule, compiled, spent, (), 0)
    period = periods.number(at)
    if usage is None:
        return ApplicableLimit(state, rule, compiled, spent, compiled.period_limit.nothing, period)
    # A new period begins with nothing used: this is the reset of the limit. Usage from before the
    # clock was set back counts from the time to which it was set.
    latest = periods.number(usage.begins_at if usage.resets == resets.number else resets.last_to)
    if period > latest:
        return ApplicableLimit(state, rule, compiled, spent, compiled.period_limit.nothing, period)
    return ApplicableLimit(state, rule, compiled, spent, usage.amounts, latest)


def counted_under(state: LimitState, rule: LimitRule, limit: CompiledLimit) -> Sums:
    """Return what is used under a rule's limit: what another filter has counted is nothing."""
    counted = state.counted
    if counted is None or counted.since != rule.counted_since:
        return limit.nothing
    return counted.amounts


def remaining_at(
    limits: ApplicableLimits, ledger: DatasetLedger, cost: Price | None = None
) -> tuple[LimitRemaining, ...]:
    """Return what remains under each limit, for an analyst whose request was refused.

    Args:
        cost: the price of the refused request. `more_at` is set only if the price fits into a
            new period, of which nothing is used, before the limit ends. None if waiting cannot
            help.
    """
    found: list[LimitRemaining] = []
    dataset_remaining = unreserved(limits, ledger)
    for each in limits.limits:
        record, (limit, period_limit) = each.rule.record, each.compiled
        remaining = None if limit is None else limit.remaining(each.counted)
        if record.scope == "dataset":
            remaining, dataset_remaining = dataset_remaining, None
        period_remaining, more_at = None, None
        if period_limit is not None:
            period_remaining = period_limit.remaining(each.period_used)
            periods = each.rule.periods
            if (
                cost is not None
                and periods
                and period_limit.charge(period_limit.nothing, cost) is not None
                and not _ends_by(each.rule, periods.end(each.period))
            ):
                more_at = iso(periods.end(each.period))
        if remaining is not None or period_remaining is not None:
            place = record.scope, record.name
            found.append(LimitRemaining(*place, remaining, period_remaining, more_at, record.until))
    if dataset_remaining is not None:
        found.insert(0, LimitRemaining("dataset", None, dataset_remaining))
    return tuple(found)


def _ends_by(rule: LimitRule, at: int) -> bool:
    return rule.until is not None and rule.until <= at


def unreserved(limits: ApplicableLimits, ledger: DatasetLedger) -> Texts | None:
    """Return what remains after others' reserved shares; None if nothing is reserved."""
    if not limits.reserved:
        return None
    return reserved_of(ledger.plan).remaining(plus(ledger.spent, limits.reserved))


def team_of(member: MemberRow | None, at: int) -> str:
    """Return the team of a membership, "" for none or for one not in force at that time."""
    return (member.team or "") if member is not None and member.is_in_force(at) else ""


def applicable_limits(
    ledger: DatasetLedger,
    store: LimitStore,
    analyst: str,
    team: str,
    at: int,
    resets: ClockResets,
) -> ApplicableLimits | None:
    """Return the limits that an analyst's request is checked against, None if there are none.

    Args:
        team: the analyst's at this time, "" for none.
        at: the decision's time, milliseconds since 1970.
        resets: those of the partition's clock.
    """
    dataset, plan = ledger.dataset, ledger.plan
    whole = store.get((dataset, "dataset", "", ""))
    team_limit = store.get((dataset, "team", "", team)) if team else None
    own = store.get((dataset, "analyst", "", analyst))
    found = [
        limit_at(state, state.rule, plan, at, resets)
        for state in (whole, team_limit, own)
        if state is not None and state.rule is not None and state.rule.is_in_force
    ]
    if team and (own is None or not own.is_in_force):
        default = store.get((dataset, "each", "", team))
        if default is not None and default.rule is not None and default.is_in_force:
            key: Key = (dataset, "each", team, analyst)
            own_use = store.get(key) or LimitState(*key)
            found.append(limit_at(own_use, default.rule, plan, at, resets))
    others = _others(store, dataset, own, team)
    if not found and not others:
        return None
    former_team = None
    if own is not None and own.share and own.within not in ("", team):
        former_team = store.get((dataset, "team", "", own.within))
        if former_team is not None and not former_team.share:
            former_team = None
    own_unused = own.unused if own is not None else ()
    return ApplicableLimits(tuple(found), others, former_team, own_unused, resets.number)


def _others(store: LimitStore, dataset: str, own: LimitState | None, team: str) -> Sums:
    """Return the shares reserved for everybody but an analyst; empty for none."""
    reserved = store.reserved(dataset)
    if not any_reserved(reserved):
        return ()
    own_unused = own.unused if own is not None else ()
    is_within_team = bool(team) and own is not None and own.within == team
    if team:
        inside = store.reserved_in(dataset, team).unused
        rest = minus(inside, own_unused) if is_within_team else inside
        reserved = plus(reserved_for_other_teams(store, dataset, team), rest)
    if not is_within_team:
        reserved = minus(reserved, own_unused)
    return reserved if any_reserved(reserved) else ()


def reserved_for_other_teams(store: LimitStore, dataset: str, team: str) -> Sums:
    """Return the shares reserved outside a team: all but the team's and those of its analysts."""
    team_limit = store.get((dataset, "team", "", team))
    return minus(store.reserved(dataset), of_team(team_limit, store.reserved_in(dataset, team)))
