"""What was asked, granted and spent in a period, by month, team, analyst, purpose and outcome."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, get_args

import msgspec

from accountant.amounts import Units, format_units
from accountant.field_rules import Count, LedgerAmount, Name, Time
from accountant.records.header import DecisionHeader, decode_header
from accountant.records.members import Member
from accountant.records.request_names import names_in_request
from accountant.times import iso
from accountant.views.datasets import DatasetView
from accountant.views.period import Period, month_period, months_between
from accountant.views.tallies import DecisionTally, Tally, add_part, first_cost
from accountant.views.usage import OTHERS
from accountant.views.visibility import DatasetAccess

MOST_KEYS: Final = 1_000
"""Teams, analysts, purposes or outcomes of a month with a row of their own: those that spent most.
All others of the month are one row, called `OTHERS`."""
GRANTED: Final = "granted"

ReportBy = Literal["month", "team", "analyst", "purpose", "outcome"]
REPORT_BYS: Final[tuple[ReportBy, ...]] = get_args(ReportBy)


class ReportRow(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of a month with one key.

    Attributes:
        month: `2026-10`, in UTC, by the decisions' own clock.
        begins, ends: the first and the last day that the period has of it.
        ended: whether that last day is over; until then more may be counted.
        key: the team, the analyst, the purpose (any text, also none), or the outcome: `granted`, or
            the reason of a refusal. "" in `by_month`, and for no team.
        granted, refused: how many requests; a batch is one.
        spent: exact sum of what the grants cost, without what reservations gave back.
    """

    month: str
    begins: str
    ends: str
    ended: bool
    key: str = ""
    granted: Count
    refused: Count
    spent: LedgerAmount


class PeriodReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked, granted and spent on a dataset in a period.

    The rows of each table are sorted by month, then by what was spent, the most first.

    Attributes:
        dataset, unit: the dataset, and the additive sum of its budget, which all amounts are in.
        budget: of `unit`.
        at: when the report was made; days begin and end in UTC.
        first, last: the first and the last day of the period; "" for no bound.
        by_month: each month of the period since the opening, also one without requests.
        by_team: teams are those of members now, whatever they were at the time. A caller who does
            not see the members gets their own team alone.
        by_analyst, by_purpose, by_outcome: after the 1,000 with the highest cost of a month, all
            others are `(others)`.
        since: where the log's beginning is in an archive: the time of the first decision that
            counts; null if all of the period do.
        team: of a lead, whose team's requests count alone, those since each analyst joined; null
            where everybody's do.
        elsewhere: what releases made elsewhere have cost that were recorded in the period: no row
            counts it.
    """

    dataset: Name
    unit: str
    budget: LedgerAmount
    at: Time
    first: str = ""
    last: str = ""
    by_month: tuple[ReportRow, ...] = ()
    by_team: tuple[ReportRow, ...] = ()
    by_analyst: tuple[ReportRow, ...] = ()
    by_purpose: tuple[ReportRow, ...] = ()
    by_outcome: tuple[ReportRow, ...] = ()
    since: Time | None = None
    team: Name | None = None
    elsewhere: LedgerAmount = "0"

    def table(self, by: ReportBy) -> tuple[ReportRow, ...]:
        """Return one table."""
        found: tuple[ReportRow, ...] = getattr(self, f"by_{by}")
        return found


decode_period_report = msgspec.json.Decoder(PeriodReport).decode


def may_report(access: DatasetAccess) -> bool:
    """Tell whether a caller may have a report: of everybody's requests, or of a team they lead."""
    return access.sees_requests or access.leads is not None


def report_columns(by: ReportBy) -> tuple[str, ...]:
    """Return the columns of a table as it is exported."""
    key = () if by == "month" else (by,)
    return (
        "dataset",
        "month",
        "begins",
        "ends",
        "ended",
        *key,
        "granted",
        "refused",
        "spent",
        "unit",
    )


def report_rows(report: PeriodReport, by: ReportBy) -> list[dict[str, Any]]:
    """Return the rows of a table, each with all of `report_columns`."""
    named = {"dataset": report.dataset, "unit": report.unit}
    rows = [named | msgspec.structs.asdict(row) for row in report.table(by)]
    return rows if by == "month" else [row | {by: row["key"]} for row in rows]


class PeriodSums:
    """The sums of a period by month. A caller's requests that it may not see are left out.

    Args:
        access: the caller's, who `may_report`.

    Attributes:
        months: what the decisions of each month come to.
        since: the time of the first decision that was taken.
        elsewhere: what releases made elsewhere have cost.
        is_over: the last decision that was taken is of a day after the period, and nothing was
            reserved in it: where times give the order, no later decision counts.
    """

    def __init__(self, period: Period, access: DatasetAccess) -> None:
        self._period = period
        self._access = access
        self._at, self._reserves = "", False
        self._reserved = set[tuple[str, str | None]]()
        self.months = dict[str, DecisionTally]()
        self.since = ""
        self.elsewhere: Units = 0
        self.is_over = False

    def take(self, values: Iterable[bytes]) -> None:
        """Count the next decisions of the dataset, as it sees them."""
        for value in values:
            line = decode_header(value)
            self.since, self._at = self.since or line.decided_at, line.decided_at
            at = line.decided_at
            states = line.outcome.charges_team or line.outcome.sets_policy
            if states and self._period.has(at[:10]):
                self.elsewhere += first_cost(line)
            # What a reservation gives back counts on the day of its request.
            if line.outcome.is_step and line.reservation is not None:
                at = line.reservation.reserved_at or at
            if self._period.has(at[:10]) and self._is_visible(line):
                add_part(self.months.setdefault(at[:7], DecisionTally()), line)
                self._reserves |= line.outcome.reserves
        last = self._period.last
        self.is_over = bool(last) and self._at[:10] > last and not self._reserves
        for counted in self.months.values():
            counted.places.clear()

    def _is_visible(self, line: DecisionHeader) -> bool:
        if self._access.sees_requests:
            return True
        leads, step = self._access.leads, line.reservation
        if line.outcome.is_step and step is not None:
            return (step.analyst, step.reserved_at) in self._reserved
        name = names_in_request(line.request).analyst
        if leads is None or not leads.has_since(name, line.sequence):
            return False
        self._reserved.add((name, line.decided_at))
        return True


def period_report(
    view: DatasetView,
    sums: PeriodSums,
    members: Iterable[Member],
    *,
    period: Period,
    access: DatasetAccess,
    now: int,
    is_whole: bool = True,
) -> PeriodReport:
    """Return the report of a period.

    Args:
        sums: every decision of the dataset was taken that the period may count.
        members: the dataset's. `now`: milliseconds since 1970.
        is_whole: no decision of the dataset is in an archive.
    """
    unit, today = next(iter(view.budget)), iso(now)[:10]
    teams = {each.member: each.team for each in members if each.team and each.is_in_force(now)}
    tables: dict[ReportBy, list[ReportRow]] = {by: [] for by in REPORT_BYS}
    for month in _months(view, sums, period, today):
        counted = sums.months.get(month, DecisionTally())
        counted.sum_up()
        whole = month_period(month)
        begins = max(whole.first, period.first)
        ends = min(whole.last, period.last or whole.last)
        row = ReportRow(
            month=month,
            begins=begins,
            ends=ends,
            ended=ends < today,
            granted=0,
            refused=0,
            spent="0",
        )
        keys = _keys(counted, teams, access)
        tables["month"].append(_row(row, "", _sum(counted.analysts.values())))
        for by, found in keys.items():
            tables[by] += _rows(row, found)
    since = sums.since if not is_whole and sums.since[:10] >= period.first else None
    return PeriodReport(
        dataset=view.dataset,
        unit=unit,
        budget=view.budget[unit],
        at=iso(now),
        first=period.first,
        last=period.last,
        since=since or None,
        elsewhere=format_units(sums.elsewhere),
        team=access.leads.name if access.leads and not access.sees_requests else None,
        **{f"by_{by}": tuple(found) for by, found in tables.items()},
    )


def _months(view: DatasetView, sums: PeriodSums, period: Period, today: str) -> list[str]:
    begin = max(period.first, view.opened_at[:10])
    end = min(period.last, today) if period.last else today
    # A clock that was ahead, or set back, leaves months of its own.
    return sorted({*months_between(begin, end), *sums.months})


def _keys(
    counted: DecisionTally, teams: Mapping[str, str], access: DatasetAccess
) -> dict[ReportBy, dict[str, Tally]]:
    by_team, outcomes = dict[str, Tally](), dict[str, Tally]()
    analysts = {name: tally for (_, name), tally in counted.analysts.items()}
    for name, tally in analysts.items():
        team = teams.get(name, "")
        if access.sees_all or (team and team == access.team):
            by_team.setdefault(team, Tally()).merge(tally)
    whole = _sum(analysts.values())
    if whole.granted or whole.spent:
        outcomes[GRANTED] = Tally(granted=whole.granted, spent=whole.spent)
    for (_, reason), tally in counted.reasons.items():
        outcomes.setdefault(str(reason).partition(" ")[0], Tally()).merge(tally)
    purposes = {purpose: tally for (_, purpose), tally in counted.purposes.items()}
    return {"team": by_team, "analyst": analysts, "purpose": purposes, "outcome": outcomes}


def _rows(row: ReportRow, found: Mapping[str, Tally]) -> list[ReportRow]:
    ordered = sorted(found.items(), key=lambda each: (-each[1].spent, -each[1].refused, each[0]))
    rest = _sum(tally for _, tally in ordered[MOST_KEYS:])
    others = [_row(row, OTHERS, rest)] if len(ordered) > MOST_KEYS else []
    return [*(_row(row, key, tally) for key, tally in ordered[:MOST_KEYS]), *others]


def _sum(tallies: Iterable[Tally]) -> Tally:
    found = Tally()
    for tally in tallies:
        found.merge(tally)
    return found


def _row(row: ReportRow, key: str, tally: Tally) -> ReportRow:
    # Below 0 where a reservation is in an archive, and what it gave back is not.
    spent: Units = max(0, tally.spent)
    return msgspec.structs.replace(
        row, key=key, granted=tally.granted, refused=tally.refused, spent=format_units(spent)
    )
