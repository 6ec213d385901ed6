"""Limits of a dataset as they stand, of one moment; nothing here decides."""

from __future__ import annotations

from typing import Final, NamedTuple

from accountant.amounts import Units, format_units
from accountant.fractional import whole_down, written
from accountant.ledger import Ledger
from accountant.ledger.levels.bound import Bound
from accountant.ledger.levels.level import Level, Rule
from accountant.ledger.levels.shares import Sums
from accountant.ledger.levels.standing import Applied, Standing, applied, left_of_others
from accountant.ledger.snapshots import left_wire
from accountant.partition.level_table import LevelChanges, LevelTable
from accountant.partition.levels import standing_of
from accountant.records.limits.limits import LimitTold, Scope, Texts
from accountant.times import iso
from accountant.views.levels import AnalystBudget, LevelView, PaceView, ShareView

_ORDER: Final[dict[Scope, int]] = {"dataset": 0, "team": 1, "each": 2, "analyst": 3}


class Divided(NamedTuple):
    """A dataset and how it is divided, at one moment.

    Attributes:
        levels: of the whole partition.
        at: milliseconds since 1970.
        resets: how often the partition's clock was set back, and to which time at last.
    """

    ledger: Ledger
    levels: LevelTable
    at: int
    resets: tuple[int, int] = (0, 0)

    def standing(self, analyst: str, team: str) -> Standing | None:
        """Return the levels that an analyst's request is checked at, None if there are none.

        Args:
            analyst, team: "" for somebody of whom nothing was said, and for none.
        """
        return standing_of(self.ledger, self.levels, analyst, team, self.at, self.resets)

    def after(self, ledger: Ledger, charged: tuple[Level, ...]) -> Charged:
        """Return the same after a grant that moves some levels; nothing here is changed."""
        changes = LevelChanges(self.levels)
        for level in charged:
            changes.put(level)
        return Charged(ledger, changes, self.at, self.resets)


class Charged(NamedTuple):
    """As `Divided`, after a grant that nobody has made."""

    ledger: Ledger
    levels: LevelChanges
    at: int
    resets: tuple[int, int]

    def standing(self, analyst: str, team: str) -> Standing | None:
        """As `Divided.standing`."""
        return standing_of(self.ledger, self.levels, analyst, team, self.at, self.resets)


def level_views(divided: Divided) -> list[LevelView]:
    """Return every limit of a dataset that is in force, by scope and name."""
    found = [
        level_view(divided, level, level.rule)
        for level in divided.levels.limits_of(divided.ledger.dataset)
        if level.rule is not None and level.is_in_force
    ]
    return sorted(found, key=lambda view: (_ORDER[view.scope], view.name or ""))


def analyst_budget(divided: Divided, analyst: str, team: str) -> AnalystBudget:
    """Return what one analyst may still use.

    Args:
        team: the analyst's at this time, "" for none.
    """
    ledger, standing = divided.ledger, divided.standing(analyst, team)
    left = None if standing is None else left_of_others(standing, ledger)
    applied_now = () if standing is None else standing.applied
    return AnalystBudget(
        dataset=ledger.dataset,
        analyst=analyst,
        team=team or None,
        budget=ledger.plan.budget_wire,
        left=left_wire(ledger) if left is None else left,
        spent_ratio=ledger.spent_ratio,
        levels=tuple([_view(each) for each in applied_now]),
    )


def level_view(divided: Divided, level: Level, rule: Rule) -> LevelView:
    """Return one limit as it stands.

    Args:
        rule: the level's.
    """
    # A default is used by nobody: the use of each analyst under it has a level of its own.
    is_used = rule.told.scope != "each"
    plan, at, resets = divided.ledger.plan, divided.at, divided.resets
    return _view(applied(level, rule, plan, at, resets), is_used=is_used)


def _view(each: Applied, *, is_used: bool = True) -> LevelView:
    told, level, limit = each.rule.told, each.level, each.bounds.limit
    used, left, ratio = None, None, None
    if limit is not None and is_used:
        used, left = _texts(limit, each.counted), limit.left(each.counted)
        ratio = limit.spent_ratio(each.counted)
    return LevelView(
        scope=told.scope,
        name=told.name,
        analyst=level.name if level.team else None,
        version=told.version,
        part=told.part,
        policy=told.policy,
        budget=told.budget,
        used=used,
        left=left,
        spent_ratio=ratio,
        pace=_pace_view(each),
        reserved=_share_view(told, level),
    )


def _pace_view(each: Applied) -> PaceView | None:
    told, pace, periods = each.rule.told.pace, each.bounds.pace, each.rule.periods
    if told is None or pace is None or periods is None:
        return None
    return PaceView(
        part=told.part,
        period=told.period,
        budget=told.budget,
        used=_texts(pace, each.paced),
        left=pace.left(each.paced),
        begins_at=iso(periods.begin(each.window)),
        ends_at=iso(periods.end(each.window)),
    )


def _share_view(told: LimitTold, level: Level) -> ShareView | None:
    share = told.reserved
    if share is None:
        return None
    left = zip(share.budget, map(_down, level.withheld), strict=True)
    return ShareView(
        part=share.part,
        budget=share.budget,
        left={name: format_units(amount) for name, amount in left},
        team=share.team,
    )


def _texts(bound: Bound, spent: Sums) -> Texts:
    """Return what was used of each sum, rounded up."""
    amounts = written(spent)[: len(bound.kind.sums)]
    return dict(zip(bound.kind.sums, map(format_units, amounts), strict=True))


def _down(amount: Units) -> Units:
    return whole_down(amount) if isinstance(amount, int) else amount
