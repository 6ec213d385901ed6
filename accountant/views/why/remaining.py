"""What is left for all, for a team and for an analyst, in the sum that `why` counts in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from accountant.amounts import Units, parse_units
from accountant.ledger.snapshots import totals_from
from accountant.limits.applicable_limits import reserved_for_other_teams
from accountant.limits.compiled_limit import amounts_of
from accountant.limits.state import LimitRule, LimitState
from accountant.limits.store import LimitTable
from accountant.records.limit_records import LimitRecord, ReservedRecord, days_of
from accountant.times import from_iso
from accountant.views.datasets import DatasetView
from accountant.views.ledgers import plan_of
from accountant.views.limit_views import AnalystBudget, ScopeView
from accountant.views.why.forecast import PeriodAllowance, RemainingAmount, SpenderKey

_NOT_ONE_SUM = "the filter does not count in this sum alone"
_OTHER_UNIT = "a limit counts in another unit"
_ENDS = "a limit is left aside that ends on"


def remaining_of_dataset(view: DatasetView) -> RemainingAmount:
    """Return what is left of a dataset's additive budget.

    Raises: LogDamaged: the view does not fit its own policy.
    """
    plan = plan_of(view)
    _, totals = totals_from(plan, view.totals, view.rounded_up)
    # Where orders, halves or curves decide, this sum may be used up and the budget is not.
    if plan.progress(totals) != totals[0]:
        return RemainingAmount(None, _NOT_ONE_SUM)
    return RemainingAmount(parse_units(view.left[next(iter(view.budget))]))


def remaining_by_scope(
    view: DatasetView,
    levels: Iterable[ScopeView],
    budgets: Mapping[str, AnalystBudget],
    teams: Iterable[str] = (),
) -> dict[SpenderKey, RemainingAmount]:
    """Return what is left for all, for teams, and for some analysts.

    A team has nothing left that is reserved for others, so somewhat less than its members, of which
    one may have a share of their own outside of it.

    Args:
        levels: the dataset's limits that are in force.
        budgets: of analysts.
        teams: those without a limit of their own.
    """
    whole, unit = remaining_of_dataset(view), next(iter(view.budget))
    known = list(levels)
    dataset_limits = [level for level in known if level.scope == "dataset"]
    whole = whole._replace(periods=_periods(dataset_limits, unit))
    found = {SpenderKey("all"): whole}
    if whole.units is None:
        return found
    shares = _shares(view.dataset, known)
    limited = {level.name: level for level in known if level.scope == "team"}
    for team in {*teams, *(name for name in limited if name is not None)}:
        reserved = reserved_for_other_teams(shares, view.dataset, team)
        units = max(0, whole.units - sum(reserved[:1]))
        own = [limited[team]] if team in limited else []
        found[SpenderKey("team", team)] = _least(units, [*dataset_limits, *own], unit)
    for name, budget in budgets.items():
        own_left = parse_units(budget.left.get(unit, "0"))
        found[SpenderKey("analyst", name)] = _least(own_left, budget.levels, unit)
    return found


def _shares(dataset: str, levels: Iterable[ScopeView]) -> LimitTable:
    """Return the shares of a dataset as a partition keeps them, with what is left of each."""
    table = LimitTable()
    for view in levels:
        share = view.reserved
        if share is not None:
            reserved = ReservedRecord(share.part, share.budget, share.team)
            record = LimitRecord(view.scope, view.name, view.version, reserved=reserved)
            rule, unused = LimitRule(record), amounts_of(share.left)
            table.put(
                LimitState(dataset, view.scope, "", view.name or "", rule=rule, unused=unused)
            )
    return table


def _least(units: Units, levels: Sequence[ScopeView], unit: str) -> RemainingAmount:
    note = None
    for level in levels:
        if level.until is not None and (level.left is not None or level.pace is not None):
            note = f"{_ENDS} {level.until[:10]}"
        if level.left is None:
            continue  # a pace or a share alone
        if unit in level.left:
            units = min(units, parse_units(level.left[unit]))
        else:
            note = _OTHER_UNIT
    return RemainingAmount(units, note, _periods(levels, unit))


def _periods(levels: Sequence[ScopeView], unit: str) -> tuple[PeriodAllowance, ...]:
    return tuple(
        PeriodAllowance(
            parse_units(level.pace.left[unit]),
            parse_units(level.pace.budget[unit]),
            from_iso(level.pace.ends_at),
            days_of(level.pace.period),
        )
        for level in levels
        if level.pace is not None and unit in level.pace.budget
    )
