"""Why a budget is as it is: who used it, for what, when, and how much longer it lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from typing import Any, Final

from accountant.amounts import INFINITE, Units, format_units, parse_units
from accountant.records.members import Member
from accountant.times import from_iso, iso
from accountant.views.datasets import DatasetView
from accountant.views.usage import OTHERS
from accountant.views.why.forecast import (
    Forecast,
    Left,
    Whose,
    day_of,
    day_text,
    forecasts,
)
from accountant.views.why.sums import Used, UsedSums
from accountant.views.why.told import (
    MOST_SHOWN,
    AnalystSpending,
    LargestGrant,
    PurposeSpending,
    Refusals,
    TeamSpending,
    WeekSpending,
    Why,
)

MOST_FORECAST: Final = 100
"""Teams, and analysts, with a forecast of their own: those that spent most in the last month."""

LeftOf = Callable[[Whose], Left]
_NOT_ONE_SUM: Final = "the filter does not count in this sum alone"
_AGREE: Final = 1e-9  # of `spent_ratio`, a float that is rounded up


def since_day(now: int) -> str:
    """Return the first day that a forecast looks at."""
    return day_text(day_of(now) - 31)


def left_of_dataset(view: DatasetView) -> Left:
    """Return what is left of a dataset's additive budget."""
    unit = next(iter(view.budget))
    total = view.totals.get(unit)
    budget = parse_units(view.budget[unit])
    spent = parse_units(str(total)) if total is not None else INFINITE
    # Where orders, halves or curves decide, this sum may be used up and the budget is not.
    if abs(_part(spent, budget) - view.spent_ratio) > _AGREE:
        return Left(None, _NOT_ONE_SUM)
    return Left(parse_units(view.left[unit]))


def why_of(
    view: DatasetView,
    sums: UsedSums,
    members: Iterable[Member] = (),
    *,
    now: int,
    analyst: str | None = None,
    left_of: LeftOf | None = None,
) -> Why:
    """Return why a dataset's budget is as it is.

    Args:
        sums: of the index, which may be some decisions before or behind the view.
        members: the dataset's.
        now: milliseconds since 1970.
        analyst: whose row and forecast are there in any case, however little they spent.
        left_of: what each may still use; without it, what is left of the dataset.
    """
    unit = next(iter(view.budget))
    budget = parse_units(view.budget[unit])
    teams = {member.member: member.team for member in members if member.roles}
    now = max(now, from_iso(view.last_decided_at))
    whole = left_of_dataset(view)
    predicted: tuple[Forecast, ...] = ()
    state = _state(view)
    if state not in {"closed", "halted"}:
        predicted = _forecasts(view, sums, teams, now, analyst, left_of or (lambda _: whole))
    return Why(
        dataset=view.dataset,
        unit=unit,
        at=iso(now),
        budget=view.budget[unit],
        spent=format_units(sum(used.spent for used in sums.days)),
        left=view.left[unit],
        spent_ratio=view.spent_ratio,
        state=state,
        by_analyst=tuple(
            AnalystSpending(
                analyst=used.key, team=teams.get(used.key) or None, **_spending(used, budget)
            )
            for used in _most(sums.analysts, analyst)
        ),
        by_team=_by_team(sums.analysts, teams, budget),
        by_purpose=tuple(
            PurposeSpending(purpose=used.key, **_spending(used, budget))
            for used in _most(sums.purposes, None)
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


def _state(view: DatasetView) -> str:
    if view.closed:
        return "closed"
    if view.halted:
        return "halted"
    return "exhausted" if view.exhausted else "open"


def _part(units: Units, budget: Units) -> float:
    return 1.0 if units == INFINITE else float(units / budget) if budget else 0.0


def _spending(used: Used, budget: Units) -> dict[str, Any]:
    return {
        "granted": used.granted,
        "refused": used.refused,
        "spent": format_units(used.spent),
        "ratio": _part(used.spent, budget),
    }


def _together(key: str, rows: Iterable[Used]) -> Used:
    granted = refused = 0
    spent: Units = 0
    for row in rows:
        granted, refused, spent = granted + row.granted, refused + row.refused, spent + row.spent
    return Used(key, granted, refused, spent)


def _sorted(rows: Iterable[Used]) -> list[Used]:
    return sorted(rows, key=lambda row: (-row.spent, -row.refused, row.key))


def _most(rows: Sequence[Used], asked_for: str | None) -> list[Used]:
    """Return the rows that spent most, and the others as one."""
    found = _sorted(rows)
    apart, rest = found[:MOST_SHOWN], found[MOST_SHOWN:]
    own = [row for row in rest if row.key == asked_for]
    rest = [row for row in rest if row.key != asked_for]
    if asked_for is not None and all(row.key != asked_for for row in found):
        own = [Used(asked_for, 0, 0, 0)]
    return [*apart, *own, *([_together(OTHERS, rest)] if rest else [])]


def _by_team(
    analysts: Iterable[Used], teams: Mapping[str, str | None], budget: Units
) -> tuple[TeamSpending, ...]:
    found: dict[str, list[Used]] = {}
    for used in analysts:
        found.setdefault(teams.get(used.key) or "", []).append(used)
    rows = _sorted(_together(team, rows) for team, rows in found.items())
    return tuple(
        TeamSpending(team=row.key, analysts=len(found[row.key]), **_spending(row, budget))
        for row in rows
    )


def _by_week(days: Iterable[Used], budget: Units) -> tuple[WeekSpending, ...]:
    found: dict[tuple[int, int], list[Used]] = {}
    for used in days:
        year, week, _ = date.fromisoformat(used.key).isocalendar()
        found.setdefault((year, week), []).append(used)
    return tuple(
        WeekSpending(
            week=f"{year}-W{week:02d}",
            begins=date.fromisocalendar(year, week, 1).isoformat(),
            **_spending(_together("", rows), budget),
        )
        for (year, week), rows in sorted(found.items())
    )


def _refusals(reasons: Iterable[Used]) -> tuple[Refusals, ...]:
    found = []
    for used in sorted(reasons, key=lambda row: (-row.refused, row.key)):
        reason, _, level = used.key.partition(" ")
        found.append(Refusals(reason=reason, level=level or None, refused=used.refused))
    return tuple(found)


def _forecasts(
    view: DatasetView,
    sums: UsedSums,
    teams: Mapping[str, str | None],
    now: int,
    analyst: str | None,
    left_of: LeftOf,
) -> tuple[Forecast, ...]:
    opened = from_iso(view.opened_at)
    # Days of analysts may begin later, where the log's beginning is in an archive.
    begin = max(opened, from_iso(sums.since_at)) if sums.since_at else opened
    everyone = {used.key: used.spent for used in sums.days}
    known = {name: days for name, days in sums.analyst_days.items() if name != OTHERS}
    by_team: dict[str, dict[str, Units]] = {}
    for name, team in teams.items():
        if not team:
            continue
        of_team = by_team.setdefault(team, {})
        for day, spent in known.get(name, {}).items():
            of_team[day] = of_team.get(day, 0) + spent
    own_team = teams.get(analyst) if analyst else None
    found = forecasts(Whose("all"), everyone, left_of(Whose("all")), begin=opened, now=now)
    for team in _spenders(by_team, own_team):
        whose = Whose("team", team)
        found += forecasts(whose, by_team[team], left_of(whose), begin=begin, now=now)
    for name in _spenders(known, analyst):
        whose = Whose("analyst", name)
        found += forecasts(whose, known.get(name, {}), left_of(whose), begin=begin, now=now)
    return tuple(found)


def _spenders(by_day: Mapping[str, Mapping[str, Units]], asked_for: str | None) -> list[str]:
    """Return the names that spent most, and one that is asked for in any case."""
    sums = {name: sum(days.values()) for name, days in by_day.items()}
    found = sorted((name for name in sums if sums[name]), key=lambda name: (-sums[name], name))
    most = found[:MOST_FORECAST]
    return most if asked_for is None or asked_for in most else [*most, asked_for]
