"""Limits of a budget, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from streams.cli.printing.output import short, spent_bar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from accountant.advice.preview import Preview
    from accountant.records import Decision
    from accountant.records.limits.limits import LimitTold, Scope, Texts
    from accountant.views.levels import AnalystBudget, LevelView

_WHOSE = {
    "dataset": "the whole dataset",
    "team": "team {name}",
    "analyst": "analyst {name}",
    "each": "each analyst of team {name}",
}
_RUN_OUT = {
    "limit": "the limit of {whose} has no room",
    "pace": "the pace of {whose} has no room until its period ends",
    "reserved": "the rest of the budget is reserved for others",
}


def whose(scope: Scope, name: str | None) -> str:
    """Return whom a limit holds for."""
    return _WHOSE[scope].format(name=name)


def limit_words(limit: LimitTold | None) -> str:
    """Return what a limit says, to go behind an outcome; "" where there is none."""
    if limit is None:
        return ""
    said = []
    if limit.part is not None:
        said.append(f"{limit.part} of the budget")
    if limit.policy is not None:
        said.append("a budget of its own: " + _amounts(limit.budget))
    if limit.pace is not None:
        said.append(f"{limit.pace.part} of the budget in each {limit.pace.period}")
    if limit.reserved is not None:
        said.append(f"{limit.reserved.part} reserved")
    what = f", {', '.join(said)}" if said else ""
    return f": {whose(limit.scope, limit.name)}{what} (version {limit.version})"


def level_words(decision: Decision | Preview) -> list[str]:
    """Return which level refuses a request, and what is left at each, line by line."""
    lines = []
    level = decision.level
    if level is not None and level.what is not None:
        lines.append(_RUN_OUT[level.what].format(whose=whose(level.scope, level.name)))
    for each in decision.left_at or ():
        left = [
            f"{what} {_shortly(amounts)}"
            for what, amounts in (("left", each.left), ("left in the period", each.pace_left))
            if amounts is not None
        ]
        if each.more_at is not None:
            left.append(f"more comes at {each.more_at}")
        lines.append(f"{whose(each.scope, each.name)}: {', '.join(left)}")
    return lines


def _amounts(amounts: Texts | None) -> str:
    return ", ".join(f"{name} {text}" for name, text in (amounts or {}).items())


def limit_table(levels: Iterable[LevelView]) -> Table:
    """Return the table of limits as they stand."""
    table = Table(header_style="bold", box=SIMPLE_HEAD)
    for column in ("limit of", "may use", "used", "left", "pace", "reserved"):
        table.add_column(column, overflow="fold")
    for level in levels:
        table.add_row(
            whose(level.scope, level.name),
            _said(level),
            "" if level.spent_ratio is None else spent_bar(level.spent_ratio),
            _shortly(level.left),
            _pace(level),
            "" if level.reserved is None else _reserved(level),
        )
    return table


def budget_lines(budget: AnalystBudget) -> RenderableType:
    """Return what an analyst may still use of one dataset."""
    team = f", team {budget.team}" if budget.team else ""
    head = Text(budget.dataset, style="bold").append(f"  {budget.analyst}{team}", style="")
    grid = Table.grid(padding=(0, 2))
    for _ in range(3):
        grid.add_column(overflow="fold")
    grid.add_row(
        "  the whole dataset", spent_bar(budget.spent_ratio), f"left {_shortly(budget.left)}"
    )
    for level in budget.levels:
        name = f"  {whose(level.scope, level.name)}"
        if level.budget is not None:
            grid.add_row(name, spent_bar(level.spent_ratio or 0.0), f"left {_shortly(level.left)}")
        if level.pace is not None:
            pace = level.pace
            left = f"left {_shortly(pace.left)}, more comes at {pace.ends_at}"
            grid.add_row(f"{name}, in each {pace.period}", _pace_bar(level), left)
    return Group(head, grid)


def _said(level: LevelView) -> str:
    if level.part is not None:
        return f"{level.part} of the budget"
    return "" if level.policy is None else _shortly(level.budget)


def _pace(level: LevelView) -> str:
    pace = level.pace
    if pace is None:
        return ""
    return f"{pace.part} in each {pace.period}; left {_shortly(pace.left)} until {pace.ends_at}"


def _pace_bar(level: LevelView) -> Text:
    pace = level.pace
    if pace is None:
        return Text("")
    name, budget = next(iter(pace.budget.items()))
    return spent_bar(min(1.0, float(pace.used[name]) / float(budget)))


def _reserved(level: LevelView) -> str:
    share = level.reserved
    return "" if share is None else f"{share.part} of the budget; left {_shortly(share.left)}"


def _shortly(amounts: Texts | None) -> str:
    return ", ".join(f"{name} {short(text)}" for name, text in (amounts or {}).items())
