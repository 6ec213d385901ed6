"""Where somebody's request stands: the levels that it is checked at, as they are now."""

from __future__ import annotations

from typing import NamedTuple

from accountant.amounts import format_units
from accountant.claims.price import Price
from accountant.fractional import written
from accountant.ledger import Ledger
from accountant.ledger.levels.bound import Bounds
from accountant.ledger.levels.level import Level, Rule
from accountant.ledger.levels.shares import Sums, plus
from accountant.policy.compiled import CompiledPolicy
from accountant.records.limits.limits import LevelLeft, Texts
from accountant.times import iso


class Applied(NamedTuple):
    """One level that applies, as it is now.

    Attributes:
        level: as it was moved last.
        rule: the limit; of an analyst under a default, the team's.
        bounds: what the limit comes to.
        counted, paced: what was used under the limit, and in this period.
        window: the period.
    """

    level: Level
    rule: Rule
    bounds: Bounds
    counted: Sums
    paced: Sums
    window: int


class Standing(NamedTuple):
    """The levels that apply to an analyst's requests on one dataset.

    Attributes:
        applied: in the order in which they are checked.
        others: what is withheld for others, in the dataset's sums; empty for nothing.
        elsewhere: the level of the team within whose share the analyst's lies, if it is another
            than the analyst's own now.
        own: what is left of the analyst's own share.
        resets: how often the clock was set back.
    """

    applied: tuple[Applied, ...]
    others: Sums = ()
    elsewhere: Level | None = None
    own: Sums = ()
    resets: int = 0


def applied(
    level: Level, rule: Rule, plan: CompiledPolicy, at: int, resets: tuple[int, int]
) -> Applied:
    """Return a level as it is at a time: use of an earlier limit or period does not count.

    Args:
        resets: how often the clock was set back, and to which time at last.
    """
    bounds, counted = rule.under(plan), level.counted
    spent: Sums = ()
    if bounds.limit is not None:
        spent = bounds.limit.nothing
        if counted is not None and counted.since == rule.counted_since:
            spent = counted.amounts
    periods, paced = rule.periods, level.paced
    if bounds.pace is None or periods is None:
        return Applied(level, rule, bounds, spent, (), 0)
    window = periods.number(at)
    if paced is None:
        return Applied(level, rule, bounds, spent, bounds.pace.nothing, window)
    # A clock that was set back takes with it what the latest period had used.
    held = periods.number(paced.begins_at if paced.resets == resets[0] else resets[1])
    if window > held:
        return Applied(level, rule, bounds, spent, bounds.pace.nothing, window)
    return Applied(level, rule, bounds, spent, paced.amounts, held)


def left_at(
    standing: Standing, ledger: Ledger, asked: Price | None = None
) -> tuple[LevelLeft, ...]:
    """Return what each level has left, for somebody whose request did not fit.

    Args:
        asked: what it costs the dataset, where waiting may help: it is told when a pace begins
            anew, if a whole period has room for that.
    """
    found: list[LevelLeft] = []
    whole = left_of_others(standing, ledger)
    for each in standing.applied:
        told, (limit, pace) = each.rule.told, each.bounds
        left = None if limit is None else limit.left(each.counted)
        if told.scope == "dataset":
            left, whole = whole, None
        pace_left, more_at = None, None
        if pace is not None:
            pace_left = pace.left(each.paced)
            periods = each.rule.periods
            if asked is not None and periods and pace.charge(pace.nothing, asked) is not None:
                more_at = iso(periods.end(each.window))
        if left is not None or pace_left is not None:
            found.append(LevelLeft(told.scope, told.name, left, pace_left, more_at))
    if whole is not None:
        found.insert(0, LevelLeft("dataset", None, whole))
    return tuple(found)


def left_of_others(standing: Standing, ledger: Ledger) -> Texts | None:
    """Return what a dataset has left where others' shares are kept back, None where none is."""
    if not standing.others:
        return None
    plan = ledger.plan
    taken = written(plus(ledger.spent, standing.others))
    room = plan.kind.left(plan.capacity, taken)
    return {n: format_units(max(0, a)) for n, a in zip(plan.kind.sums, room, strict=True)}
