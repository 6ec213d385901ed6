"""What was spent over time, as a line that is drawn and a table that says the same."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Final, NamedTuple

from accountant.amounts import Units, format_units, parse_units
from accountant.display.forecasts import (
    earliest_to_latest,
    forecast_scope_words,
    runs_out,
    window_words,
)
from accountant.display.numbers import part_of, spent_amount, spent_percent, symbol
from accountant.display.times import day
from accountant.views.datasets import DatasetView
from accountant.views.overview import UsageSum
from accountant.views.why import Forecast, Why
from streams.pages.bars import first_of

WIDTH: Final = 720
HEIGHT: Final = 200
_MOST_ROWS: Final = 60


class DayRow(NamedTuple):
    """What one day has come to: spent on it, and in all to its end."""

    day: str
    spent: str
    total: str
    percent: str
    granted: int
    refused: int


class AxisMark(NamedTuple):
    """A place beside the drawing with what is written there."""

    at: float
    text: str


class SpendingChart(NamedTuple):
    """A drawing of `WIDTH` by `HEIGHT`, the whole budget high.

    Attributes:
        line: points of what was spent by the end of each day, a step a day. `area`: the same,
            closed below.
        even: points of an even pace to the horizon, "" without one.
        title, about: what the drawing shows, for who does not see it.
        marks: days on the axis of time. `rows`: the latest days, the last one first.
        left_out: how many days are not among them.
    """

    line: str
    area: str
    even: str
    title: str
    about: str
    marks: tuple[AxisMark, ...]
    rows: tuple[DayRow, ...]
    left_out: int
    width: int = WIDTH
    height: int = HEIGHT


def spending(view: DatasetView, days: Sequence[UsageSum], today: str) -> SpendingChart:
    """Return what was spent of a dataset over time.

    Args:
        days: by day, in their order.
        today: as `2026-11-24`, where the drawing ends.
    """
    whole, name = first_of(view.budget), symbol(next(iter(view.budget)))
    first = min(view.opened_at[:10], *(row.key for row in days)) if days else view.opened_at[:10]
    last = max(today, first, *(row.key for row in days)) if days else max(today, first)
    span = _days(first, last) + 1
    total: Units = 0
    rows = list[DayRow]()
    points = [(0.0, float(HEIGHT))]
    for row in days:
        # A day's spending stands at its end: when on that day, the rows do not tell.
        begins, ends = _days(first, row.key) / span * WIDTH, (_days(first, row.key) + 1) / span
        points.append((begins, points[-1][1]))
        total += parse_units(row.spent)
        in_all = format_units(total)
        part = part_of(in_all, whole)
        points.append((ends * WIDTH, HEIGHT * (1 - float(part))))
        spent, so_far = spent_amount(row.spent), spent_amount(in_all)
        told = f"{name} {spent}", f"{name} {so_far}", spent_percent(part)
        rows.append(DayRow(day(row.key), *told, row.granted, row.refused))
    points.append((float(WIDTH), points[-1][1]))
    line = _path(points)
    return SpendingChart(
        line=line,
        area=f"{line} {WIDTH},{HEIGHT} 0,{HEIGHT}",
        even=_even(view, first, span),
        title=f"Spent of the budget, {day(first)} to {day(last)}",
        about=_about(rows),
        marks=_marks(first, last, span),
        rows=tuple(reversed(rows[-_MOST_ROWS:])),
        left_out=max(0, len(rows) - _MOST_ROWS),
    )


def _about(rows: Sequence[DayRow]) -> str:
    if not rows:
        return "Nothing was asked yet."
    return (
        f"A line that rises from nothing to {rows[-1].percent} of the budget by the end of "
        f"{rows[-1].day}. The table below has every day on which somebody asked."
    )


def _days(first: str, last: str) -> int:
    return (date.fromisoformat(last) - date.fromisoformat(first)).days


def _path(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _even(view: DatasetView, first: str, span: int) -> str:
    """Return the line from nothing at the opening to the whole budget at the horizon."""
    if view.horizon_ends_at is None:
        return ""
    opened = _days(first, view.opened_at[:10])
    ends = _days(first, view.horizon_ends_at[:10])
    if ends <= opened:
        return ""
    at_end = min(ends, span)
    part = (at_end - opened) / (ends - opened)
    begin = (opened / span * WIDTH, float(HEIGHT))
    return _path([begin, (at_end / span * WIDTH, HEIGHT * (1 - part))])


def _marks(first: str, last: str, span: int) -> tuple[AxisMark, ...]:
    middle = date.fromordinal((date.fromisoformat(first).toordinal() * 2 + span) // 2).isoformat()
    marks = [
        AxisMark(0.0, day(first)),
        AxisMark(WIDTH / 2, day(middle)),
        AxisMark(float(WIDTH), day(last)),
    ]
    return tuple(marks if span > 2 else [marks[0], marks[-1]] if span == 2 else marks[:1])


MOST: Final = 15


class Lasting(NamedTuple):
    """One forecast.

    Attributes:
        whose: of whom the pace is. `pace`: of which days it is taken.
        spent: in these days, rounded up.
        runs_out: the day, or why there is none. `range`: the days that the pace's spread gives.
    """

    whose: str
    pace: str
    spent: str
    runs_out: str
    range: str
    note: str


def lasting(why: Why, own: str) -> tuple[Lasting, ...]:
    """Return the forecasts of all, of teams and of the one who looks, at most `MOST`.

    Args:
        own: whose forecast is called their own; others' of one analyst are left out.
    """
    told = [each for each in why.forecasts if each.scope != "analyst" or each.name == own]
    return tuple(_lasting(each, why, own) for each in told[:MOST])


def _lasting(each: Forecast, why: Why, own: str) -> Lasting:
    return Lasting(
        whose=forecast_scope_words(each, own),
        pace=window_words(each.days),
        spent=f"{symbol(why.unit)} {spent_amount(each.spent)}",
        runs_out=runs_out(each),
        range=earliest_to_latest(each),
        note=each.note or "",
    )


def note_of(rows: Sequence[Lasting]) -> str:
    """Return what keeps forecasts from being told, or what they leave aside, each once."""
    return "; ".join(dict.fromkeys(row.note for row in rows if row.note))
