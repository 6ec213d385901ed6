"""Spending over time, as a chart and as a table; and forecasts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Final, NamedTuple

from accountant.amounts import Units, format_units, parse_units
from accountant.display.forecasts import (
    earliest_to_latest,
    forecast_scope_words,
    is_too_young,
    runs_out,
    window_words,
)
from accountant.display.numbers import counted_words, part_of, spent_amount, spent_percent, symbol
from accountant.display.times import day
from accountant.views.datasets import DatasetView
from accountant.views.overview import UsageSum
from accountant.views.why import Forecast, Why
from streams.pages.dataset.bars import first_of

WIDTH: Final = 720
HEIGHT: Final = 200
_MOST_ROWS: Final = 60


class DayRow(NamedTuple):
    """Spending on one day, and the total by its end."""

    day: str
    spent: str
    total: str
    percent: str
    granted: int
    refused: int


class AxisMark(NamedTuple):
    """A label on the axis of time."""

    at: float
    text: str


class SpendingChart(NamedTuple):
    """A chart of `WIDTH` by `HEIGHT`; its height is the whole budget.

    Attributes:
        line: points of the total by the end of each day. `area`: the same, closed below.
        even: points of even spending until the horizon, "" without one.
        title, about: a description for screen readers.
        marks: days on the axis of time. `rows`: the latest days, newest first.
        left_out: the number of days that are not among the rows.
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
    """Return the chart of a dataset's spending.

    Args:
        days: by day, in their order.
        today: as `2026-11-24`, where the chart ends.
    """
    whole, unit = first_of(view.budget), next(iter(view.budget))
    name, of = symbol(unit), counted_words(view.spent_ratio, unit, str(view.totals[unit]), whole)
    first = min(view.opened_at[:10], *(row.key for row in days)) if days else view.opened_at[:10]
    last = max(today, first, *(row.key for row in days)) if days else max(today, first)
    span = _days(first, last) + 1
    total: Units = 0
    rows = list[DayRow]()
    points = [(0.0, float(HEIGHT))]
    for row in days:
        # Draw a day's spending as a slope over the day: the rows have no time of day.
        begins, ends = _days(first, row.key) / span * WIDTH, (_days(first, row.key) + 1) / span
        points.append((begins, points[-1][1]))
        total += parse_units(row.spent)
        in_all = format_units(total)
        part = part_of(in_all, whole)
        points.append((ends * WIDTH, HEIGHT * (1 - float(part))))
        spent, so_far = spent_amount(row.spent), spent_amount(in_all)
        texts = f"{name} {spent}", f"{name} {so_far}", spent_percent(part)
        rows.append(DayRow(day(row.key), *texts, row.granted, row.refused))
    points.append((float(WIDTH), points[-1][1]))
    line = _path(points)
    return SpendingChart(
        line=line,
        area=f"{line} {WIDTH},{HEIGHT} 0,{HEIGHT}",
        even=_even_line(view, first, span),
        title=f"Spent of {of}, {day(first)} to {day(last)}",
        about=_about(rows, of),
        marks=_marks(first, last, span),
        rows=tuple(reversed(rows[-_MOST_ROWS:])),
        left_out=max(0, len(rows) - _MOST_ROWS),
    )


def _about(rows: Sequence[DayRow], of: str) -> str:
    if not rows:
        return "No requests yet."
    return (
        f"A line that rises from nothing to {rows[-1].percent} of {of} by the end of "
        f"{rows[-1].day}. The table below has every day with requests."
    )


def _days(first: str, last: str) -> int:
    return (date.fromisoformat(last) - date.fromisoformat(first)).days


def _path(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _even_line(view: DatasetView, first: str, span: int) -> str:
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


class ForecastRow(NamedTuple):
    """One forecast.

    Attributes:
        whose: the dataset, team or analyst. `pace`: the days that it extrapolates.
        spent: on these days, rounded up.
        runs_out: the day, or why there is none. `range`: the earliest and the latest day.
    """

    whose: str
    pace: str
    spent: str
    runs_out: str
    range: str
    note: str


def forecast_rows(why: Why, own: str) -> tuple[ForecastRow, ...]:
    """Return the forecasts of the dataset, of teams and of the viewer, at most `MOST`.

    Args:
        own: the viewer's name; forecasts of other analysts are left out.
    """
    visible = [
        each
        for each in why.forecasts
        if (each.scope != "analyst" or each.name == own) and not is_too_young(each)
    ]
    alike: dict[ForecastRow, list[str]] = {}
    for each in visible:
        row = _forecast_row(each, why, own)
        alike.setdefault(row._replace(pace=""), []).append(row.pace)
    rows = [row._replace(pace=", ".join(paces)) for row, paces in alike.items()]
    return tuple(rows[:MOST])


def _forecast_row(each: Forecast, why: Why, own: str) -> ForecastRow:
    return ForecastRow(
        whose=forecast_scope_words(each, own),
        pace=window_words(each.days),
        spent=f"{symbol(why.unit)} {spent_amount(each.spent)}",
        runs_out=runs_out(each),
        range=earliest_to_latest(each),
        note=each.note or "",
    )


def forecast_notes(rows: Sequence[ForecastRow]) -> str:
    """Return why forecasts are missing, or what they leave out, each reason once."""
    return "; ".join(dict.fromkeys(row.note for row in rows if row.note))
