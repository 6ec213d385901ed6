"""How much longer a budget lasts, if it goes on as lately."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from accountant.views.why import Forecast, Why
from streams.gateway.pages.dataset.shown.words import day, short, symbol, whose

MOST: Final = 15
_PACES: Final = {1: "the last day", 7: "the last 7 days", 30: "the last 30 days"}


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
    who = "All together" if each.scope == "all" else "You"
    if each.scope == "team":
        who = whose("team", each.name)
    return Lasting(
        whose=who,
        pace=_PACES.get(each.days, f"the last {each.days:,} days"),
        spent=f"{symbol(why.unit)} {short(each.spent, up=True)}",
        runs_out=_runs_out(each),
        range=_range(each),
        note=each.note or "",
    )


def _runs_out(each: Forecast) -> str:
    if each.runs_out_at is not None:
        return day(each.runs_out_at)
    return "cannot be told" if each.left is None else "not at this pace"


def _range(each: Forecast) -> str:
    if each.earliest is None and each.latest is None:
        return ""
    first = "" if each.earliest is None else day(each.earliest)
    return f"{first} to {'never' if each.latest is None else day(each.latest)}"


def note_of(rows: Sequence[Lasting]) -> str:
    """Return what keeps forecasts from being told, or what they leave aside, each once."""
    return "; ".join(dict.fromkeys(row.note for row in rows if row.note))
