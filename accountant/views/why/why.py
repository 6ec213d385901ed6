"""Why a budget is as it is: the analysts, purposes and weeks of its usage, and a forecast."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any, Final, NamedTuple

import msgspec

from accountant.amounts import INFINITE, Units, format_units, parse_units
from accountant.records.members import Member
from accountant.times import from_iso, iso
from accountant.views.datasets import DatasetView
from accountant.views.ledgers import held_ratio_of
from accountant.views.tallies import LargeGrant
from accountant.views.usage import OTHERS
from accountant.views.why.forecast import (
    Forecast,
    RemainingAmount,
    SpenderKey,
    day_of,
    day_text,
    forecasts,
)
from accountant.views.why.remaining import remaining_of_dataset
from accountant.views.why.report import (
    MAX_SHOWN,
    AnalystSpending,
    LargestGrant,
    PurposeSpending,
    RefusalsByReason,
    TeamSpending,
    WeekSpending,
    Why,
)

MAX_FORECAST: Final = 100
"""Teams, and analysts, with a forecast of their own: those that spent most in the last month."""


class UsageByKey(NamedTuple):
    """The requests with one key; `spent` in units of 1e-40."""

    key: str
    granted: int
    refused: int
    spent: Units


class UsageSums(msgspec.Struct, frozen=True, kw_only=True):
    """The sums of one dataset.

    Attributes:
        unit: the additive sum of the dataset's budget.
        analysts, purposes: in the order in which they came.
        days: by day, `2026-11-23`.
        reasons: of refusals; see `tallies.Tallies`.
        largest: the largest first.
        analyst_days: what grants cost, by analyst, then by day, of the last days.
        since, since_at: number and time of the first decision that `reasons`, `largest` and
            `analyst_days` have, where the log's beginning was archived; 0 and "" where they have
            all.
    """

    unit: str
    analysts: list[UsageByKey] = []
    purposes: list[UsageByKey] = []
    days: list[UsageByKey] = []
    reasons: list[UsageByKey] = []
    largest: list[LargeGrant] = []
    analyst_days: dict[str, dict[str, Units]] = {}
    since: int = 0
    since_at: str = ""


def first_day(now: int) -> str:
    """Return the first day that a forecast covers."""
    return day_text(day_of(now) - 31)


def spenders(
    sums: UsageSums, members: Iterable[Member], analyst: str | None = None
) -> tuple[list[str], list[str]]:
    """Return the teams and the analysts that `why_of` makes a forecast for.

    Args:
        analyst: always among them, and their team.
    """
    teams = _teams(members)
    own_team = teams.get(analyst) if analyst else None
    return (
        _top_spenders(_by_team_and_day(sums, teams), own_team),
        _top_spenders(_analyst_days(sums), analyst),
    )


def why_of(
    view: DatasetView,
    sums: UsageSums,
    members: Iterable[Member] = (),
    *,
    now: int,
    analyst: str | None = None,
    left: Mapping[SpenderKey, RemainingAmount] | None = None,
) -> Why:
    """Return why a dataset's budget is as it is.

    Args:
        sums: of the index, which may be some decisions ahead of the view, or lag it.
        members: the dataset's.
        now: milliseconds since 1970.
        analyst: their row and forecast are always there, however little they spent.
        left: what each may still use; by default, what is left of the dataset.
    """
    unit = next(iter(view.budget))
    budget, spent = parse_units(view.budget[unit]), sum(used.spent for used in sums.days)
    now = max(now, from_iso(view.last_decided_at))
    members = [member for member in members if member.is_in_force(now)]
    teams = _teams(members)
    predicted: tuple[Forecast, ...] = ()
    state = view.state
    if state not in {"closed", "paused", "halted", "suspended"}:
        whole = remaining_of_dataset(view)
        by_spender = {SpenderKey("all"): whole, **(left or {})}
        for whose, by_day, begin in _period_limits(view, sums, members, analyst):
            known = by_spender.get(whose, whole)
            predicted += tuple(forecasts(whose, by_day, known, begin=begin, now=now))
    return Why(
        dataset=view.dataset,
        unit=unit,
        at=iso(now),
        budget=view.budget[unit],
        spent=format_units(spent),
        elsewhere=format_units(_elsewhere(view, spent)),
        left=view.left[unit],
        spent_ratio=view.spent_ratio,
        reserved=view.reserved.get(unit, "0"),
        reserved_ratio=held_ratio_of(view),
        state=state,
        by_analyst=tuple(
            AnalystSpending(analyst=used.key, team=teams.get(used.key), **_spending(used, budget))
            for used in _largest_rows(sums.analysts, analyst)
        ),
        by_team=_by_team(sums.analysts, teams, budget),
        by_purpose=tuple(
            PurposeSpending(purpose=used.key, **_spending(used, budget))
            for used in _largest_rows(sums.purposes, None)
        ),
        by_week=_by_week(sums.days, budget),
        refusals=_refusals(sums.reasons),
        largest=tuple(
            LargestGrant(
                request_id=grant.request_id,
                analyst=grant.analyst,
                purpose=grant.purpose,
                cost=format_units(grant.cost),
                ratio=_part(grant.cost, budget),
                decided_at=grant.decided_at,
                sequence=grant.sequence,
            )
            for grant in sums.largest
        ),
        forecasts=predicted,
        since=sums.since if sums.since > 1 else None,
    )


def _elsewhere(view: DatasetView, spent: Units) -> Units:
    """Return what releases made elsewhere have cost in the first sum.

    Args:
        spent: by requests.
    """
    total = parse_units(str(view.totals[next(iter(view.budget))]))
    if not (view.recorded or view.spent) or INFINITE in (total, spent):
        return 0
    return max(0, total - spent)


def _part(units: Units, budget: Units) -> float:
    return 1.0 if units == INFINITE else float(units / budget) if budget else 0.0


def _spending(used: UsageByKey, budget: Units) -> dict[str, Any]:
    return {
        "granted": used.granted,
        "refused": used.refused,
        "spent": format_units(used.spent),
        "ratio": _part(used.spent, budget),
    }


def _sum_rows(key: str, rows: Iterable[UsageByKey]) -> UsageByKey:
    granted = refused = 0
    spent: Units = 0
    for row in rows:
        granted, refused, spent = granted + row.granted, refused + row.refused, spent + row.spent
    return UsageByKey(key, granted, refused, spent)


def _sort_rows(rows: Iterable[UsageByKey]) -> list[UsageByKey]:
    return sorted(rows, key=lambda row: (-row.spent, -row.refused, row.key))


def _largest_rows(rows: Sequence[UsageByKey], asked_for: str | None) -> list[UsageByKey]:
    """Return the rows that spent most, and the others as one."""
    found = _sort_rows(rows)
    apart, rest = found[:MAX_SHOWN], found[MAX_SHOWN:]
    own = [row for row in rest if row.key == asked_for]
    rest = [row for row in rest if row.key != asked_for]
    if asked_for is not None and all(row.key != asked_for for row in found):
        own = [UsageByKey(asked_for, 0, 0, 0)]
    return [*apart, *own, *([_sum_rows(OTHERS, rest)] if rest else [])]


def _by_team(
    analysts: Iterable[UsageByKey], teams: Mapping[str, str], budget: Units
) -> tuple[TeamSpending, ...]:
    found: dict[str, list[UsageByKey]] = {}
    for used in analysts:
        found.setdefault(teams.get(used.key, ""), []).append(used)
    rows = _sort_rows(_sum_rows(team, rows) for team, rows in found.items())
    return tuple(
        TeamSpending(team=row.key, analysts=len(found[row.key]), **_spending(row, budget))
        for row in rows
    )


def _by_week(days: Iterable[UsageByKey], budget: Units) -> tuple[WeekSpending, ...]:
    found: dict[tuple[int, int], list[UsageByKey]] = {}
    for used in days:
        year, week, _ = date.fromisoformat(used.key).isocalendar()
        found.setdefault((year, week), []).append(used)
    return tuple(
        WeekSpending(
            week=f"{year}-W{week:02d}",
            begins=date.fromisocalendar(year, week, 1).isoformat(),
            **_spending(_sum_rows("", rows), budget),
        )
        for (year, week), rows in sorted(found.items())
    )


def _refusals(reasons: Iterable[UsageByKey]) -> tuple[RefusalsByReason, ...]:
    found = []
    for used in sorted(reasons, key=lambda row: (-row.refused, row.key)):
        reason, _, level = used.key.partition(" ")
        found.append(RefusalsByReason(reason=reason, level=level or None, refused=used.refused))
    return tuple(found)


def _teams(members: Iterable[Member]) -> dict[str, str]:
    return {member.member: member.team for member in members if member.team}


def _period_limits(
    view: DatasetView, sums: UsageSums, members: Sequence[Member], analyst: str | None
) -> Iterator[tuple[SpenderKey, Mapping[str, Units], int]]:
    """Yield each spender of a forecast with its spending by day and the first known day."""
    opened = from_iso(view.opened_at)
    yield SpenderKey("all"), {used.key: used.spent for used in sums.days}, opened
    # Days of analysts may begin later, where the log's beginning is in an archive.
    begin = max(opened, from_iso(sums.since_at)) if sums.since_at else opened
    by_team = _by_team_and_day(sums, _teams(members))
    teams, analysts = spenders(sums, members, analyst)
    for team in teams:
        yield SpenderKey("team", team), by_team.get(team, {}), begin
    for name in analysts:
        yield SpenderKey("analyst", name), sums.analyst_days.get(name, {}), begin


def _analyst_days(sums: UsageSums) -> dict[str, dict[str, Units]]:
    return {name: days for name, days in sums.analyst_days.items() if name != OTHERS}


def _by_team_and_day(sums: UsageSums, teams: Mapping[str, str]) -> dict[str, dict[str, Units]]:
    found: dict[str, dict[str, Units]] = {}
    for name, days in _analyst_days(sums).items():
        if name in teams:
            of_team = found.setdefault(teams[name], {})
            for day, spent in days.items():
                of_team[day] = of_team.get(day, 0) + spent
    return found


def _top_spenders(by_day: Mapping[str, Mapping[str, Units]], asked_for: str | None) -> list[str]:
    """Return the names that spent most, and one that is asked for in any case."""
    spent = {name: sum(days.values()) for name, days in by_day.items()}
    found = sorted((name for name in spent if spent[name]), key=lambda name: (-spent[name], name))
    maximum = found[:MAX_FORECAST]
    return maximum if asked_for is None or asked_for in maximum else [*maximum, asked_for]
