"""Tables and sentences on the usage of a budget and how much longer it lasts, for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from accountant.amounts import format_units, parse_units
from accountant.display.forecasts import (
    earliest_to_latest,
    forecast_scope_words,
    is_too_young,
    is_used_up,
    runs_out,
    window_words,
)
from accountant.display.numbers import (
    counted_words,
    remaining_amount,
    spent_amount,
    spent_percent,
    symbol,
)
from accountant.display.reasons import REFUSED_AT
from accountant.display.spending import amounts_words, settled_amount, without_elsewhere
from accountant.display.times import moment
from accountant.records.outcomes import Reason
from accountant.views.why import rows
from accountant.views.why.forecast import SLOWED, TOO_YOUNG, WINDOWS
from streams.cli.printing.output import spent_bar

if TYPE_CHECKING:
    from accountant.views.why import Forecast, Why, WhyBy

_BUDGET: Final = "the budget"
_MOST: Final = 30  # rows; the rest is in --csv
_FEW: Final = 5
_NOTHING: Final = {"reason": "refused request", "forecast": "forecast"}
_KEYS: Final[dict[WhyBy, tuple[tuple[str, str], ...]]] = {
    "analyst": (("analyst", "analyst"), ("team", "team")),
    "team": (("team", "team"), ("analysts", "analysts")),
    "purpose": (("purpose", "purpose"),),
    "week": (("week", "week"), ("begins", "from")),
}


def sentences(why: Why, me: str | None) -> list[Text]:
    """Return the key facts: how much is spent, by which analyst most, and when it runs out."""
    of, unit = _counted(why), symbol(why.unit)
    spent = settled_amount(_in_all(why), why.reserved)
    whole = amounts_words(spent, why.reserved, remaining_amount(why.budget))
    is_alone, reserves = of == _BUDGET, why.reserved_ratio > 0
    amount = f" ({unit} {whole})" if is_alone else ""
    bar = spent_bar(why.spent_ratio, reserved=why.reserved_ratio)
    subject = f", of {why.dataset}" if reserves else f" of {why.dataset} is spent"
    lines = [bar.append(f"{subject}{amount}, {why.state}")]
    if not is_alone:
        what = "is spent and reserved" if reserves else "is spent"
        said = f"the amounts below count {unit} alone, of which {whole} {what}"
        lines.append(Text(said))
    if reserves:
        lines.append(Text("rows count a reservation at its maximum until it is settled or voided"))
    if words := without_elsewhere("rows", why.unit, why.elsewhere):
        lines.append(Text(words))
    if why.by_analyst and why.only is None:
        top = why.by_analyst[0]
        if top.ratio:
            part = f"{spent_percent(top.ratio)} of {of}"
            used = f"{symbol(why.unit)} {spent_amount(top.spent)}, {part}"
            lines.append(Text(f"{top.analyst} has used the most: {used}"))
    lines += [Text(_sentence(each)) for each in why.forecasts if each.days == 7 and _is(each, me)]
    if why.since is not None:
        lines.append(
            Text(
                "refusals, largest grants and forecasts of teams and analysts count decisions from "
                f"{why.since} on: earlier ones are in an archive",
                style="dim",
            )
        )
    return lines


def _in_all(why: Why) -> str:
    """Return what is spent and reserved, with releases made elsewhere."""
    return format_units(parse_units(why.spent) + parse_units(why.elsewhere))


def _counted(why: Why) -> str:
    """Return what the percentages of the rows are parts of."""
    return counted_words(why.spent_ratio, why.unit, _in_all(why), why.budget)


def _is(forecast: Forecast, me: str | None) -> bool:
    return forecast.scope == "all" or (forecast.scope == "analyst" and forecast.name == me)


def _sentence(forecast: Forecast) -> str:
    if is_too_young(forecast):
        whose = forecast_scope_words(forecast, None)
        return f"no forecast yet for {whose}: {TOO_YOUNG}"
    whose, window = forecast_scope_words(forecast, None), window_words(forecast.days)
    per_day = spent_amount(forecast.per_day)
    begin = f"at the rate of {window} ({per_day} a day by {whose}), the budget"
    if forecast.left is None:
        return f"{begin} has no known end: {forecast.note}"
    if is_used_up(forecast):
        return f"the budget of {whose} is used up"
    if forecast.runs_out_at is None:
        return f"{begin} does not run out"
    slowed = f": {SLOWED}" if SLOWED in (forecast.note or "") else ""
    return f"{begin} runs out on {_when(forecast)}{slowed}"


def _when(forecast: Forecast) -> str:
    between = earliest_to_latest(forecast)
    return runs_out(forecast) + (f" ({between})" if between else "")


def table_by(why: Why, by: WhyBy, me: str | None, *, limit: int = _MOST) -> Table:
    """Return one table."""
    if by == "forecast":
        return forecast_table(why.forecasts, me)
    found = rows(why, by)
    if by == "grants":
        table = _grants(why, found[:limit])
    elif by == "reason":
        table = _table("refused for", ("reason", "at", "requests"))
        for row in found[:limit]:
            where = REFUSED_AT[row["level"]] if row["reason"] == Reason.EXHAUSTED else ""
            table.add_row(row["reason"], where, str(row["refused"]))
    else:
        table = _spending(why, by, found[:limit], me)
    if len(found) > limit:
        table.caption = f"and {len(found) - limit:,} more; --csv prints all"
    return table


def hidden_table(why: Why, by: WhyBy) -> str:
    """Return why a table has no rows for a caller who sees only their own requests, else ""."""
    if why.only is None or rows(why, by):
        return ""
    if by in {"reason", "forecast", "analyst"}:
        return f"{why.only} has no {_NOTHING.get(by, 'request')} on {why.dataset}"
    return (
        f"no table by {by}: {why.dataset} does not show {why.only} what everybody asks, and such a "
        "table shows how others ask. `accountant why --by analyst` has your own sums"
    )


def _table(title: str, columns: Iterable[str]) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _spending(why: Why, by: WhyBy, found: Sequence[dict[str, Any]], me: str | None) -> Table:
    keys = _KEYS[by]
    table = _table(f"{why.dataset} by {by}", [shown for _, shown in keys])
    for column in ("granted", "refused", f"spent ({symbol(why.unit)})"):
        table.add_column(column, justify="right")
    table.add_column(f"share of {_counted(why)}")
    for row in found:
        names = [Text(str(_shown(field, row[field]))) for field, _ in keys]
        counts = str(row["granted"]), str(row["refused"]), spent_amount(row["spent"])
        own = "bold" if by == "analyst" and row["analyst"] == me else ""
        table.add_row(*names, *counts, spent_bar(row["ratio"], 20), style=own)
    return table


def _shown(field: str, value: object) -> object:
    return "no team" if field == "team" and not value else value


def _grants(why: Why, found: Sequence[dict[str, Any]]) -> Table:
    columns = (
        "granted at",
        "analyst",
        "purpose",
        f"cost ({symbol(why.unit)})",
        "share",
        "request id",
    )
    table = _table("largest grants", columns)
    for row in found:
        table.add_row(
            moment(row["decided_at"]),
            row["analyst"],
            Text(row["purpose"]),
            spent_amount(row["cost"]),
            spent_percent(row["ratio"]),
            row["request_id"],
        )
    return table


def forecast_table(forecasts: Sequence[Forecast], me: str | None) -> Table:
    """Return when the budget runs out, a line for all, each team, and each analyst."""
    windows = [f"at the rate of {window_words(days)}" for days in WINDOWS]
    table = _table("forecast: the budget runs out", ("of", "left", *windows))
    found: dict[tuple[str, str | None], dict[int, Forecast]] = {}
    for each in forecasts:
        if is_too_young(each):
            continue
        found.setdefault((each.scope, each.name), {})[each.days] = each
    alike: dict[tuple[str, ...], list[Forecast]] = {}
    for windows_of in list(found.values())[:_MOST]:
        first = windows_of[WINDOWS[0]]
        left = "" if first.left is None else remaining_amount(first.left)
        cells = (left, *(_when(windows_of[days]) for days in WINDOWS))
        alike.setdefault(cells, []).append(first)
    for cells, rows_alike in alike.items():
        own = any(each.name == me and each.scope == "analyst" for each in rows_alike)
        table.add_row(_names(rows_alike), *cells, style="bold" if own else "")
    if len(found) > _MOST:
        table.caption = f"and {len(found) - _MOST:,} more; --by forecast --csv prints all"
    return table


def _names(forecasts: Sequence[Forecast]) -> str:
    """Return the scopes of forecasts that are alike, in one cell."""
    named = [forecast_scope_words(each, None) for each in forecasts]
    more = f" and {len(named) - _FEW:,} more" if len(named) > _FEW else ""
    return ", ".join(named[:_FEW]) + more


def overview(why: Why, me: str | None) -> list[Table]:
    """Return the most important tables that have rows."""
    tables = [table_by(why, "analyst", me)]
    if len(why.by_team) > 1 or any(row.team for row in why.by_team):
        tables.append(table_by(why, "team", me))
    if why.refusals:
        tables.append(table_by(why, "reason", me))
    if why.largest:
        tables.append(table_by(why, "grants", me, limit=_FEW))
    if not all(map(is_too_young, why.forecasts)):
        tables.append(forecast_table(why.forecasts, me))
    return tables
