"""Limits of a budget, in words."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from accountant.advice.refused import moment, refused_at, whose
from accountant.advice.room import tightest
from streams.cli.printing.output import short, spent_bar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from accountant.advice.preview import Preview
    from accountant.limits.wire import LimitRecord, Texts
    from accountant.records import Decision
    from accountant.views.limit_views import AnalystBudget, LevelView

_COLUMNS = ("limit of", "may use", "used", "left", "pace", "reserved")


def limit_words(limit: LimitRecord | None) -> str:
    """Return what a limit says, to go behind an outcome; "" where there is none."""
    if limit is None:
        return ""
    said = []
    if limit.part is not None:
        said.append(f"{limit.part} of the budget")
    if limit.policy is not None:
        said.append("a budget of its own: " + _amounts(limit.budget))
    if limit.pace is not None:
        said.append(f"{limit.pace.part} of the budget {_per(limit.pace.period)}")
    if limit.reserved is not None:
        said.append(f"{limit.reserved.part} reserved")
    what = f", {', '.join(said)}" if said else ""
    return f": {whose(limit.scope, limit.name)}{what} (version {limit.version})"


def level_words(decision: Decision | Preview) -> list[str]:
    """Return which level refuses a request, and what is left at each, line by line."""
    lines = []
    if at := refused_at(decision):
        lines.append(at)
    for each in decision.left_at:
        who = whose(each.scope, each.name)
        if each.scope == "dataset" and each.left is not None and each.left != decision.left:
            who += ", without what is reserved for others"
        left = [
            f"{what} {_shortly(amounts)}"
            for what, amounts in (("left", each.left), ("left in the period", each.pace_left))
            if amounts is not None
        ]
        if each.more_at is not None:
            left.append(f"more comes at {each.more_at}")
        lines.append(f"{who}: {', '.join(left)}")
    return lines


def _amounts(amounts: Texts | None) -> str:
    return ", ".join(f"{name} {text}" for name, text in (amounts or {}).items())


def limit_table(levels: Iterable[LevelView]) -> Table:
    """Return the table of limits as they stand, without columns of what none of them has."""
    rows = [
        (
            whose(level.scope, level.name),
            _said(level),
            "" if level.spent_ratio is None else spent_bar(level.spent_ratio),
            _shortly(level.left, level.budget),
            _pace(level),
            _reserved(level),
        )
        for level in levels
    ]
    table = Table(header_style="bold", box=SIMPLE_HEAD)
    shown = [place for place, cells in enumerate(zip(*rows, strict=True)) if any(cells)]
    for place in shown:
        column = _COLUMNS[place]
        table.add_column(column, overflow="fold", no_wrap=column in {"used", "pace"})
    for row in rows:
        table.add_row(*(row[place] for place in shown))
    return table


def budget_lines(budget: AnalystBudget) -> RenderableType:
    """Return what an analyst may still use of one dataset."""
    team = f", team {budget.team}" if budget.team else ""
    head = Text(budget.dataset, style="bold").append(f"  {budget.analyst}{team}", style="")
    grid = Table.grid(padding=(0, 2))
    for _ in range(3):
        grid.add_column(overflow="fold")
    head.append(f"\n  {_may_still(budget)}", style="")
    grid.add_row(
        "  the whole dataset",
        spent_bar(budget.spent_ratio),
        f"left, and not reserved for others, {_shortly(budget.left, budget.budget)}",
    )
    for level in budget.levels:
        name = f"  {whose(level.scope, level.name)}"
        if level.budget is not None:
            left = f"left {_shortly(level.left, level.budget)}"
            grid.add_row(name, spent_bar(level.spent_ratio or 0.0), left)
        if level.pace is not None:
            pace = level.pace
            left = f"left {_shortly(pace.left, pace.budget)}, anew on {moment(pace.ends_at)}"
            grid.add_row(f"{name}, {_per(pace.period)}", _pace_bar(level), left)
    return Group(head, grid)


def _may_still(budget: AnalystBudget) -> str:
    """Return what somebody may still use, and why no more, in a sentence."""
    found = tightest(budget)
    part = found.left / Decimal(budget.budget[found.unit])
    room = found.room
    held = "the dataset" if room.level is None else whose(room.level.scope, room.level.name)
    by = f"the {room.what} of {held}" if room.level is not None else "what is left for all"
    then = "" if found.more_at is None else f"; more comes on {moment(found.more_at)}"
    # Rounded down: nobody is to ask for what is not there.
    percent = (part * 1000).to_integral_value(ROUND_FLOOR) / 10
    left = short(f"{found.left:f}")
    return f"you may still use {percent} % of the budget ({found.unit} {left}), by {by}{then}"


def _said(level: LevelView) -> str:
    if level.part is not None:
        return f"{level.part} of the budget"
    return "" if level.policy is None else _shortly(level.budget)


def _pace(level: LevelView) -> str:
    pace = level.pace
    if pace is None:
        return ""
    left = _shortly(pace.left, pace.budget)
    return f"{pace.part} {_per(pace.period)}\nleft {left}\nuntil {moment(pace.ends_at)}"


def _pace_bar(level: LevelView) -> Text:
    pace = level.pace
    if pace is None:
        return Text("")
    name, budget = next(iter(pace.budget.items()))
    return spent_bar(min(1.0, float(pace.used[name]) / float(budget)))


def _reserved(level: LevelView) -> str:
    share = level.reserved
    return "" if share is None else f"{share.part}\nleft {_shortly(share.left, share.budget)}"


def _per(period: str) -> str:
    return "a day" if period == "P1D" else f"in {period[1:-1]} days"


def _shortly(amounts: Texts | None, budget: Texts | None = None) -> str:
    """Return amounts in short, without the sums that a budget, where it is given, has at 0."""
    kept = {
        name: text
        for name, text in (amounts or {}).items()
        if budget is None or budget.get(name) != "0"
    }
    return ", ".join(f"{name} {short(text)}" for name, text in kept.items())
