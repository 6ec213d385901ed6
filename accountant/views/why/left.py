"""What is left for all, for a team and for an analyst, in the sum that `why` counts in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from accountant.amounts import Units, parse_units
from accountant.ledger.snapshots import totals_from
from accountant.views.datasets import DatasetView
from accountant.views.ledgers import plan_of
from accountant.views.levels import AnalystBudget, LevelView
from accountant.views.why.forecast import Left, Whose

_NOT_ONE_SUM = "the filter does not count in this sum alone"
_OTHER_UNIT = "a limit counts in another unit"
_SHARES = "what is reserved for others is not taken off"


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
    view: DatasetView, levels: Iterable[LevelView], budgets: Mapping[str, AnalystBudget]
) -> dict[Whose, Left]:
    """Return what is left for all, for the teams that have a limit, and for some analysts.

    Args:
        levels: the dataset's limits that are in force.
        budgets: of analysts.
    """
    whole, unit = left_of_dataset(view), next(iter(view.budget))
    found = {Whose("all"): whole}
    if whole.units is None:
        return found
    known = list(levels)
    reserved = [level for level in known if level.reserved is not None]
    for level in known:
        if level.scope == "team" and level.name is not None:
            others = any(each.name != level.name for each in reserved)
            least = _least(whole.units, [level], unit)
            found[Whose("team", level.name)] = (
                least if least.note or not others else Left(least.units, _SHARES)
            )
    for name, budget in budgets.items():
        own = parse_units(budget.left.get(unit, "0"))
        found[Whose("analyst", name)] = _least(own, budget.levels, unit)
    return found


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
