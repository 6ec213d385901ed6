"""What is left for all, for a team and for an analyst, in the sum that `why` counts in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from accountant.amounts import Units, parse_units
from accountant.ledger.snapshots import totals_from
from accountant.views.datasets import DatasetView
from accountant.views.ledgers import plan_of
from accountant.views.limit_views import AnalystBudget, LevelView
from accountant.views.why.forecast import Left, Whose

_NOT_ONE_SUM = "the filter does not count in this sum alone"
_OTHER_UNIT = "a limit counts in another unit"


def left_of_dataset(view: DatasetView) -> Left:
    """Return what is left of a dataset's additive budget.

    Raises: LogDamaged: the view does not fit its own policy.
    """
    plan = plan_of(view)
    _, totals = totals_from(plan, view.totals, view.rounded_up)
    # Where orders, halves or curves decide, this sum may be used up and the budget is not.
    if plan.progress(totals) != totals[0]:
        return Left(None, _NOT_ONE_SUM)
    return Left(parse_units(view.left[next(iter(view.budget))]))


def lefts(
    view: DatasetView,
    levels: Iterable[LevelView],
    budgets: Mapping[str, AnalystBudget],
    teams: Iterable[str] = (),
) -> dict[Whose, Left]:
    """Return what is left for all, for teams, and for some analysts.

    Of a team nothing that is kept for others is left, so somewhat less than its members may use,
    of whom one may have a share of their own.

    Args:
        levels: the dataset's limits that are in force.
        budgets: of analysts.
        teams: those without a limit of their own.
    """
    whole, unit = left_of_dataset(view), next(iter(view.budget))
    found = {Whose("all"): whole}
    if whole.units is None:
        return found
    known = list(levels)
    limited = {level.name: level for level in known if level.scope == "team"}
    for team in {*teams, *(name for name in limited if name is not None)}:
        units = max(0, whole.units - _kept_for_others(known, team, unit))
        own = [limited[team]] if team in limited else []
        found[Whose("team", team)] = _least(units, own, unit)
    for name, budget in budgets.items():
        own_left = parse_units(budget.left.get(unit, "0"))
        found[Whose("analyst", name)] = _least(own_left, budget.levels, unit)
    return found


def _kept_for_others(levels: Iterable[LevelView], team: str, unit: str) -> Units:
    """Return what is still reserved for other teams, and for analysts whose share is not within it.

    Of a team's share and those of its analysts within it, whichever is more: as `decide` keeps it.
    """
    teams, within = dict[str, Units](), dict[str, Units]()
    for level in levels:
        share = level.reserved
        if share is None:
            continue
        left = parse_units(share.left.get(unit, "0"))
        if level.scope == "team":
            teams[level.name or ""] = left
        else:
            place = share.team or ""
            within[place] = within.get(place, 0) + left
    names = (teams.keys() | within.keys()) - {team}
    return sum(max(teams.get(name, 0), within.get(name, 0)) for name in names)


def _least(units: Units, levels: Iterable[LevelView], unit: str) -> Left:
    note = None
    for level in levels:
        if level.left is None:
            continue  # a pace or a share alone
        if unit in level.left:
            units = min(units, parse_units(level.left[unit]))
        else:
            note = _OTHER_UNIT
    return Left(units, note)
