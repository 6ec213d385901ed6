"""The report of `why`: its tables, their columns, and what each reader may see of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, Literal, get_args

import msgspec

from accountant.field_rules import Count, LedgerAmount, Name, Note, PartOfOne, RequestId, Time
from accountant.views.why.forecast import Forecast

MAX_SHOWN: Final = 1_000
"""Analysts and purposes with a row of their own: those that spent most. All others are one row,
called `OTHERS`."""


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked, granted and spent.

    Attributes:
        granted, refused: how many requests; a batch is one.
        spent: exact sum of what the grants cost, in the unit of `Why`.
        ratio: `spent` as a part of the budget, rounded to the next float; rows of one table add up
            to the part that is spent, but for that.
    """

    granted: Count
    refused: Count
    spent: LedgerAmount
    ratio: float


class AnalystSpending(Spending, frozen=True, kw_only=True):
    """One analyst's; `team`: the current one, None for no team or no member."""

    analyst: str
    team: Name | None = None


class TeamSpending(Spending, frozen=True, kw_only=True):
    """That of the current members of a team, whatever their team was at the time.

    Attributes:
        team: "" for analysts without a team, or no members.
        analysts: how many of them have asked.
    """

    team: str
    analysts: Count


class PurposeSpending(Spending, frozen=True, kw_only=True):
    """That of one purpose, any text, also none."""

    purpose: str


class WeekSpending(Spending, frozen=True, kw_only=True):
    """That of one ISO week by the decisions' own clock, in UTC.

    Attributes:
        week: `2026-W48`.
        begins: its Monday, `2026-11-23`.
    """

    week: str
    begins: str


class RefusalsByReason(msgspec.Struct, frozen=True, kw_only=True):
    """How many requests were refused for one reason.

    Attributes:
        level: the scope of the limit that had no room; None where it was the dataset's own budget,
            or another reason.
    """

    reason: Note
    level: str | None = None
    refused: Count


class LargestGrant(msgspec.Struct, frozen=True, kw_only=True):
    """One of the grants that cost most.

    Attributes:
        cost: in the unit of `Why`.
        ratio: `cost` as a part of the budget.
        sequence: number of the decision in the dataset.
    """

    request_id: RequestId
    analyst: Name
    purpose: Note
    cost: LedgerAmount
    ratio: float
    decided_at: Time
    sequence: Count


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a dataset's budget, and how much longer it lasts.

    Each table of rows is sorted by what was spent, the most first; weeks by time.

    Attributes:
        dataset, unit: the dataset, and the additive sum of its budget, which all amounts are in.
        at: the time at which forecasts start.
        state: `open`, `exhausted`, `suspended`, `halted`, `paused` or `closed`; the last four
            have no forecasts.
        budget, left, spent_ratio: of `unit`, as in the dataset.
        spent: cost of all grants: the sum of `by_week`.
        by_analyst, by_team, by_purpose: `granted`, `refused`, `spent`, `ratio` of each, the most
            spent first. Teams are those of members now; "" is nobody's; `analysts` counts who has
            asked. After the 1,000 analysts or purposes with the highest cost, all others are
            `(others)`.
        by_week: the same by time: `week` `2026-W48`, `begins` its Monday, in UTC.
        refusals: `refused` requests by `reason`, the most frequent first, and by the scope
            (`level`) of the limit without room; null if it was no limit.
        largest: the 20 grants with the highest cost: `request_id`, `analyst`, `purpose`, `cost`,
            `decided_at`, `sequence`.
        forecasts: how much longer it lasts: of all, then of teams, then of analysts, three each.
        since: if the log's beginning is in an archive: number of the first decision that
            `refusals`, `largest` and the forecasts of teams and analysts count; null if they count
            all.
        reserved, reserved_ratio: what open reservations hold of `spent`, and of `spent_ratio`. Rows
            count it as spent.
        elsewhere: what releases made elsewhere have cost, which neither `spent` nor a row counts;
            `spent_ratio` counts it.
        only: whose rows these are, for a caller who sees only their own; of a lead, also the
            team's.
    """

    dataset: Name
    unit: str
    at: Time
    budget: LedgerAmount
    spent: LedgerAmount
    left: LedgerAmount
    spent_ratio: PartOfOne
    state: str
    by_analyst: tuple[AnalystSpending, ...] = ()
    by_team: tuple[TeamSpending, ...] = ()
    by_purpose: tuple[PurposeSpending, ...] = ()
    by_week: tuple[WeekSpending, ...] = ()
    refusals: tuple[RefusalsByReason, ...] = ()
    largest: tuple[LargestGrant, ...] = ()
    forecasts: tuple[Forecast, ...] = ()
    since: Count | None = None
    only: Name | None = None
    reserved: str = "0"
    reserved_ratio: float = 0.0
    elsewhere: LedgerAmount = "0"


decode_why = msgspec.json.Decoder(Why).decode


WhyBy = Literal["analyst", "team", "purpose", "week", "reason", "grants", "forecast"]
WHY_BYS: Final[tuple[WhyBy, ...]] = get_args(WhyBy)

_KINDS: Final[dict[WhyBy, type[msgspec.Struct]]] = {
    "analyst": AnalystSpending,
    "team": TeamSpending,
    "purpose": PurposeSpending,
    "week": WeekSpending,
    "reason": RefusalsByReason,
    "grants": LargestGrant,
    "forecast": Forecast,
}
_FIRST: Final[dict[WhyBy, tuple[str, ...]]] = {
    "analyst": ("analyst", "team"),
    "team": ("team", "analysts"),
    "purpose": ("purpose",),
    "week": ("week", "begins"),
}


def columns(by: WhyBy) -> tuple[str, ...]:
    """Return the columns of a table, the dataset and the key first, the unit last."""
    fields = msgspec.structs.fields(_KINDS[by])
    first = _FIRST.get(by, ())
    rest = [field.name for field in fields if field.name not in first]
    return "dataset", *first, *rest, "unit"


def rows(why: Why, by: WhyBy) -> list[dict[str, Any]]:
    """Return the rows of a table, each with all of `columns`."""
    named = {"dataset": why.dataset, "unit": why.unit}
    return [named | msgspec.structs.asdict(row) for row in _rows(why, by)]


def _rows(why: Why, by: WhyBy) -> Sequence[msgspec.Struct]:
    return {
        "analyst": why.by_analyst,
        "team": why.by_team,
        "purpose": why.by_purpose,
        "week": why.by_week,
        "reason": why.refusals,
        "grants": why.largest,
        "forecast": why.forecasts,
    }[by]


def without_members(why: Why, name: str) -> Why:
    """Return the report for a caller who sees all requests, but no members.

    Teams of others are left out, and with them what limits leave others; those of `name` stay.
    """
    team = _team_of(why, name)
    shown = {("all", None), ("team", team), ("analyst", name)}
    return msgspec.structs.replace(
        why,
        by_analyst=tuple(_without_team(row, name) for row in why.by_analyst),
        by_team=tuple(row for row in why.by_team if team and row.team == team),
        forecasts=tuple(each for each in why.forecasts if (each.scope, each.name) in shown),
    )


def own_rows(why: Why, name: str) -> Why:
    """Return the report for a caller who sees only their own requests.

    Every caller who sees the dataset sees its totals. Of the rest only the rows of `name` stay.
    Sums by purpose, week or reason are removed: they reveal how others ask. So are the largest
    grants: whether one's own are among them reveals how large others' are.
    """
    return msgspec.structs.replace(
        why,
        only=name,
        by_analyst=tuple(row for row in why.by_analyst if row.analyst == name),
        by_team=(),
        by_purpose=(),
        by_week=(),
        refusals=(),
        largest=(),
        forecasts=tuple(
            each for each in why.forecasts if each.scope == "analyst" and each.name == name
        ),
    )


def rows_of_team(why: Why, seen: Why, team: str, names: Collection[str]) -> Why:
    """Return the report for the lead of a team: its rows and forecasts, beside what a caller sees.

    Args:
        seen: the report of a caller who sees all requests, or of one who sees their own.
        team: the lead's. `names`: of its members, and the lead's own.
    """
    shown = {("all", None), ("team", team), *(("analyst", name) for name in names)}
    analysts = [row for row in why.by_analyst if row.analyst in names or seen.only is None]
    return msgspec.structs.replace(
        seen,
        by_analyst=tuple(
            row if row.analyst in names else _without_team(row, "") for row in analysts
        ),
        by_team=tuple(row for row in why.by_team if row.team == team),
        forecasts=tuple(each for each in why.forecasts if (each.scope, each.name) in shown),
    )


def _team_of(why: Why, name: str) -> str | None:
    return next((row.team for row in why.by_analyst if row.analyst == name), None)


def _without_team(row: AnalystSpending, name: str) -> AnalystSpending:
    return row if row.analyst == name else msgspec.structs.replace(row, team=None)
