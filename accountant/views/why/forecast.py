"""When the remaining budget runs out, at the rate of the last day, week or month.

A forecast is arithmetic about the past, and promises nothing: docs/explanation/forecast.md.
Sums are exact; floats are for rates and times alone.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Final, Literal, NamedTuple

import msgspec

from accountant.amounts import INFINITE, UNIT, Units, format_units
from accountant.field_rules import LedgerAmount, Name, Time
from accountant.times import iso

WINDOWS: Final = (1, 7, 30)
"""Days that a pace is taken of."""
NEVER_DAYS: Final = 36_525.0
"""What would last longer, a hundred years, counts as not running out."""

TOO_YOUNG: Final = "there is less than a day of history"
"""Why there is no forecast yet."""
SLOWED: Final = "a period limit allows less than this rate"
"""What makes a forecast later than its rate."""

_DAY_MS: Final = 86_400_000
_MIN_DAYS: Final = 1 / 24  # of a window: the first request of a dataset is no pace
_EPOCH: Final = date(1970, 1, 1)
_ERRORS: Final = 2  # standard errors of the mean to either side
_MIN_WHOLE: Final = 2  # whole days that a spread can be taken of

Scope = Literal["all", "team", "analyst"]


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """When something runs out at the pace of a window.

    Attributes:
        scope, name: the spender: all, a team's current members, or one analyst.
        days: so many whole days before today, and today so far, in UTC; from the dataset's
            opening on.
        spent: exact sum of what was granted in them, in the unit of `Why`.
        per_day: `spent` by the days that have passed, one hour at least; 0 where that is no
            number.
        left: what they may still use, if nobody else uses any of it; None where it is not known
            in this unit.
        runs_out_at: when that is used up; None where it is not at this pace, or not within a
            hundred years.
        earliest, latest: the same at a pace two standard errors of the daily mean faster, and
            slower. Both None of fewer than two whole days; `latest` alone where the slower pace
            never uses it up.
        note: why there is no time, where it is not the pace.
    """

    scope: Scope
    name: Name | None = None
    days: int
    spent: LedgerAmount
    per_day: float
    left: LedgerAmount | None = None
    runs_out_at: Time | None = None
    earliest: Time | None = None
    latest: Time | None = None
    note: str | None = None


class PeriodAllowance(NamedTuple):
    """What a period limit allows.

    Attributes:
        left, budget: of this period, and of each later one, in the dataset's additive sum.
        ends: the end of this period, in milliseconds since 1970.
        days: the length of a period.
    """

    left: Units
    budget: Units
    ends: int
    days: int

    def days_until(self, amount: float, per_day: float, now: int) -> float:
        """Return the days until an amount is used at a rate, as fast as the limit allows."""
        first = max(0.0, (self.ends - now) / _DAY_MS)
        in_first = min(per_day * first, _ratio(self.left, UNIT))
        if amount <= in_first:
            return amount / per_day
        rest, each = amount - in_first, min(per_day * self.days, _ratio(self.budget, UNIT))
        if each <= 0:
            return math.inf
        whole = math.ceil(rest / each) - 1
        return first + whole * self.days + (rest - whole * each) / per_day


class RemainingAmount(NamedTuple):
    """What a spender may still use.

    Attributes:
        units: in the dataset's additive sum; None where that is not known.
        note: what keeps it from being known, or what it leaves aside.
        periods: the period limits that slow the spender down.
    """

    units: Units | None
    note: str | None = None
    periods: tuple[PeriodAllowance, ...] = ()


class SpenderKey(NamedTuple):
    """The spender that a forecast covers."""

    scope: Scope
    name: str | None = None


def day_of(at: int) -> int:
    """Return the number of the UTC day of a time in milliseconds since 1970."""
    return at // _DAY_MS


def day_text(day: int) -> str:
    """Return the day `2026-11-23` of a number of days since 1970."""
    return (_EPOCH + timedelta(days=day)).isoformat()


def forecasts(
    whose: SpenderKey, by_day: Mapping[str, Units], left: RemainingAmount, *, begin: int, now: int
) -> list[Forecast]:
    """Return what the paces of the last day, week and month come to.

    Args:
        by_day: what grants cost, by day; days without any may be missing.
        begin: the first moment of which `by_day` has everything, in milliseconds since 1970.
        now: in milliseconds since 1970.
    """
    return [_forecast(whose, by_day, left, days, begin, now) for days in WINDOWS]


def _forecast(
    whose: SpenderKey,
    by_day: Mapping[str, Units],
    left: RemainingAmount,
    days: int,
    begin: int,
    now: int,
) -> Forecast:
    today = day_of(now)
    start = min(now, max((today - days) * _DAY_MS, begin))
    used = {day: by_day.get(day_text(day), 0) for day in range(day_of(start), today + 1)}
    spent: Units = sum(used.values())
    elapsed = max(_MIN_DAYS, (now - start) / _DAY_MS)
    per_day = _ratio(spent, UNIT) / elapsed
    times: list[str | None] = [None, None, None]
    young = now - begin < _DAY_MS and left.units != 0
    notes = [left.note, TOO_YOUNG if young else None]
    if left.units is not None and math.isfinite(per_day) and not young:
        # A day that the window, or what is known, begins in the middle of is no whole one.
        whole = [_ratio(used[day], UNIT) for day in range(-(-start // _DAY_MS), today)]
        spread = _spread(whole)
        times[0] = _runs_out(left, per_day, now)
        if times[0] != _runs_out(left._replace(periods=()), per_day, now):
            notes.append(SLOWED)
        if spread is not None and left.units and per_day:
            times[1] = _runs_out(left, per_day + spread, now)
            times[2] = _runs_out(left, per_day - spread, now)
    return Forecast(
        scope=whose.scope,
        name=whose.name,
        days=days,
        spent=format_units(spent),
        per_day=per_day if math.isfinite(per_day) else 0.0,
        left=None if left.units is None else format_units(left.units),
        runs_out_at=times[0],
        earliest=times[1],
        latest=times[2],
        note="; ".join(filter(None, notes)) or None,
    )


def _ratio(units: Units, whole: Units) -> float:
    return math.inf if units == INFINITE else float(units / whole)


def _spread(whole: list[float]) -> float | None:
    """Return two standard errors of the mean of daily sums, None of too few."""
    if len(whole) < _MIN_WHOLE:
        return None
    return _ERRORS * statistics.stdev(whole) / math.sqrt(len(whole))


def _runs_out(left: RemainingAmount, per_day: float, now: int) -> str | None:
    assert left.units is not None
    if not left.units:
        return iso(now)
    if per_day <= 0:
        return None
    amount = _ratio(left.units, UNIT)
    # Each limit alone gives a time that is too early at most.
    days = max([amount / per_day, *(p.days_until(amount, per_day, now) for p in left.periods)])
    return iso(now + round(days * _DAY_MS)) if days <= NEVER_DAYS else None
