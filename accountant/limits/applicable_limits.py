"""Which limits apply to a request, and what they leave."""

from __future__ import annotations

from typing import NamedTuple

from accountant.claims.price import Price
from accountant.ledger.ledger import Ledger
from accountant.limits.compiled_limit import CompiledLimit, CompiledLimits, reserved_of
from accountant.limits.reserved_totals import Sums, any_reserved, minus, plus
from accountant.limits.state import Key, Level, LimitState
from accountant.limits.store import LimitStore, of_team
from accountant.limits.wire import LevelLeft, Texts
from accountant.policy.compiled_policy import CompiledPolicy
from accountant.records.members import MemberRow
from accountant.times import iso


class ApplicableLimit(NamedTuple):
    """One level that applies, as it is now.

    Attributes:
        level: as it was moved last.
        rule: the limit; of an analyst under a default, the team's.
        compiled: what the limit comes to.
        counted, paced: what was used under the limit, and in this period.
        window: the period.
    """

    level: Level
    rule: LimitState
    compiled: CompiledLimits
    counted: Sums
    paced: Sums
    window: int


class ApplicableLimits(NamedTuple):
    """The limits that apply to an analyst's requests on one dataset.

    Attributes:
        limits: in the order in which they are checked.
        reserved: for others, in the dataset's sums; empty for nothing.
        former_team: the team that the analyst has left, if their reserved share still lies inside
            its share.
        own_unused: what is left of the analyst's own share.
        resets: how often the clock was set back.
    """

    limits: tuple[ApplicableLimit, ...]
    reserved: Sums = ()
    former_team: Level | None = None
    own_unused: Sums = ()
    resets: int = 0

    @property
    def budgets(self) -> list[tuple[CompiledLimit, Sums]]:
        """The budgets of limits, then periods, level by level, each with what was used of it."""
        found = []
        for each in self.limits:
            limit, pace = each.compiled
            if limit is not None:
                found.append((limit, each.counted))
            if pace is not None:
                found.append((pace, each.paced))
        return found


def limit_at(
    level: Level, rule: LimitState, plan: CompiledPolicy, at: int, resets: tuple[int, int]
) -> ApplicableLimit:
    """Return a level as it is at a time: use of an earlier limit or period does not count.

    Args:
        resets: how often the clock was set back, and to which time at last.
    """
    compiled, counted = rule.under(plan), level.counted
    spent: Sums = ()
    if compiled.limit is not None:
        spent = compiled.limit.nothing
        if counted is not None and counted.since == rule.counted_since:
            spent = counted.amounts
    periods, paced = rule.periods, level.paced
    if compiled.pace is None or periods is None:
        return ApplicableLimit(level, rule, compiled, spent, (), 0)
    window = periods.number(at)
    if paced is None:
        return ApplicableLimit(level, rule, compiled, spent, compiled.pace.nothing, window)
    # A new period begins at 0: this is the reset. After a clock reset, usage of the latest period
    # counts in the period of the new time.
    held = periods.number(paced.begins_at if paced.resets == resets[0] else resets[1])
    if window > held:
        return ApplicableLimit(level, rule, compiled, spent, compiled.pace.nothing, window)
    return ApplicableLimit(level, rule, compiled, spent, paced.amounts, held)


def remaining_at(
    limits: ApplicableLimits, ledger: Ledger, asked: Price | None = None
) -> tuple[LevelLeft, ...]:
    """Return what each level has left, for somebody whose request did not fit.

    Args:
        asked: the price of the refused request, where waiting may help. `more_at` is set only if
            the price fits into an unused period.
    """
    found: list[LevelLeft] = []
    dataset_left = unreserved(limits, ledger)
    for each in limits.limits:
        record, (limit, pace) = each.rule.record, each.compiled
        left = None if limit is None else limit.remaining(each.counted)
        if record.scope == "dataset":
            left, dataset_left = dataset_left, None
        pace_left, more_at = None, None
        if pace is not None:
            pace_left = pace.remaining(each.paced)
            periods = each.rule.periods
            if asked is not None and periods and pace.charge(pace.nothing, asked) is not None:
                more_at = iso(periods.end(each.window))
        if left is not None or pace_left is not None:
            found.append(LevelLeft(record.scope, record.name, left, pace_left, more_at))
    if dataset_left is not None:
        found.insert(0, LevelLeft("dataset", None, dataset_left))
    return tuple(found)


def unreserved(limits: ApplicableLimits, ledger: Ledger) -> Texts | None:
    """Return what is left after others' reserved shares; None if nothing is reserved."""
    if not limits.reserved:
        return None
    return reserved_of(ledger.plan).remaining(plus(ledger.spent, limits.reserved))


def team_of(member: MemberRow | None, at: int) -> str:
    """Return the team of a membership that is in force at a time, "" for none."""
    return (member.team or "") if member is not None and member.is_in_force(at) else ""


def applicable_limits(
    ledger: Ledger,
    levels: LimitStore,
    analyst: str,
    team: str,
    at: int,
    resets: tuple[int, int],
) -> ApplicableLimits | None:
    """Return the levels that an analyst's request is checked at, None if there are none.

    Args:
        team: the analyst's at this time, "" for none.
        at: the decision's time, milliseconds since 1970.
        resets: how often the clock was set back, and to which time at last.
    """
    dataset, plan = ledger.dataset, ledger.plan
    whole = levels.get((dataset, "dataset", "", ""))
    crew = levels.get((dataset, "team", "", team)) if team else None
    own = levels.get((dataset, "analyst", "", analyst))
    found = [
        limit_at(level, level.rule, plan, at, resets)
        for level in (whole, crew, own)
        if level is not None and level.rule is not None and level.rule.is_in_force
    ]
    if team and (own is None or not own.is_in_force):
        default = levels.get((dataset, "each", "", team))
        if default is not None and default.rule is not None and default.is_in_force:
            key: Key = (dataset, "each", team, analyst)
            use = levels.get(key) or Level(*key)
            found.append(limit_at(use, default.rule, plan, at, resets))
    others = _others(levels, dataset, own, team)
    if not found and not others:
        return None
    former_team = None
    if own is not None and own.share and own.within not in ("", team):
        former_team = levels.get((dataset, "team", "", own.within))
        if former_team is not None and not former_team.share:
            former_team = None
    own_unused = own.unused if own is not None else ()
    return ApplicableLimits(tuple(found), others, former_team, own_unused, resets[0])


def _others(levels: LimitStore, dataset: str, own: Level | None, team: str) -> Sums:
    """Return what is reserved for others than an analyst, empty for nothing."""
    reserved = levels.reserved(dataset)
    if not any_reserved(reserved):
        return ()
    share = own.unused if own is not None else ()
    here = bool(team) and own is not None and own.within == team
    if team:
        inside = levels.reserved_in(dataset, team).unused
        rest = minus(inside, share) if here else inside
        reserved = plus(reserved_for_other_teams(levels, dataset, team), rest)
    if not here:
        reserved = minus(reserved, share)
    return reserved if any_reserved(reserved) else ()


def reserved_for_other_teams(levels: LimitStore, dataset: str, team: str) -> Sums:
    """Return what is reserved for others than a team and its analysts within its share."""
    crew = levels.get((dataset, "team", "", team))
    return minus(levels.reserved(dataset), of_team(crew, levels.reserved_in(dataset, team)))
