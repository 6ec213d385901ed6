"""Forecasts for people: whose use is meant, of which days, and when the budget runs out."""

from __future__ import annotations

from decimal import Decimal

from accountant.display.limits import scope_words
from accountant.display.times import day
from accountant.views.why import Forecast
from accountant.views.why.forecast import TOO_YOUNG


def forecast_scope_words(forecast: Forecast, own: str | None) -> str:
    """Return whose use a forecast covers.

    Args:
        own: the name of the reader.
    """
    if forecast.scope == "all":
        return "all together"
    if forecast.scope == "analyst" and forecast.name == own:
        return "you"
    return scope_words(forecast.scope, forecast.name)


def window_words(days: int) -> str:
    """Return the days that a forecast looks at: `the last 7 days`."""
    return "the last day" if days == 1 else f"the last {days:,} days"


def runs_out(forecast: Forecast) -> str:
    """Return the day on which the budget runs out, or why there is none."""
    if is_used_up(forecast):
        return "used up"
    if forecast.runs_out_at is not None:
        return day(forecast.runs_out_at)
    if forecast.left is None or is_too_young(forecast):
        return "not known"
    return "not at this rate"


def is_used_up(forecast: Forecast) -> bool:
    """Whether nothing is left."""
    return forecast.left is not None and not Decimal(forecast.left)


def is_too_young(forecast: Forecast) -> bool:
    """Whether there is too little history for a forecast."""
    return TOO_YOUNG in (forecast.note or "")


def earliest_to_latest(forecast: Forecast) -> str:
    """Return the days between which the budget runs out; "" if unknown, or one and the same."""
    if forecast.earliest is None:
        return ""
    latest = "never" if forecast.latest is None else day(forecast.latest)
    if latest == day(forecast.earliest):
        return ""
    return f"{day(forecast.earliest)} to {latest}"
