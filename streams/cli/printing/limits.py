"""Tables and lines of a budget's limits, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from accountant.display.limits import (
    SEE_EACH,
    SEPARATELY,
    Whole,
    budget_words,
    ceiling_words,
    is_default,
    next_period,
    period_limit_words,
    scope_words,
    share_words,
    whole_of_limits,
)
from accountant.display.may_use import may_use, state_of
from accountant.display.numbers import counting_line
from accountant.display.pauses import person_pause_words
from accountant.display.spending import spending
from accountant.display.texts import capital
from accountant.display.times import each_period, moment
from streams.cli.printing.output import spent_bar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from accountant.views.datasets import DatasetView
    from accountant.views.limit_views import AnalystBudget, ScopeView
    from accountant.views.pending import PendingView

_COLUMNS = ("limit of", "may use", "used", "left", "pace", "reserved", "until")


def limit_table(levels: Iterable[ScopeView], view: DatasetView | None = None) -> Table:
    """Return the table of limits, without empty columns.

    Args:
        view: their dataset, None where it cannot be read.
    """
    levels = list(levels)
    whole = whole_of_limits(view)
    rows = [
        (
            scope_words(level.scope, level.name),
            _budget(level, whole),
            "" if level.spent_ratio is None else _bar(level.spent_ratio, level.held_ratio),
            counting_line(level.left, level.budget),
            _pace(level, whole),
            _reserved(level, whole),
            "" if level.until is None else moment(level.until),
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
    captions = [f"{capital(SEPARATELY)}: {SEE_EACH}"] if any(map(is_default, levels)) else []
    if view is not None and (words := ceiling_words(view)):
        captions.append(f"{capital(words)}.")
    if captions:
        table.caption, table.caption_justify = "\n".join(captions), "left"
    return table


def budget_lines(
    budget: AnalystBudget,
    *,
    caller: str | None = None,
    obstacle: str | None = None,
    void: str = "",
    waiting: Iterable[PendingView] = (),
) -> RenderableType:
    """Return an analyst's remaining budget of one dataset, and each limit.

    Args:
        caller: the analyst's name, None to address the analyst as "you".
        obstacle: why the analyst may ask nothing; amounts are left out then.
        void: that the dataset guarantees nothing, and why; "" while it does.
        waiting: the analyst's requests that wait for an approval.
    """
    team = f", team {budget.team}" if budget.team else ""
    head = Text(budget.dataset, style="bold").append(f"  {budget.analyst}{team}", style="")
    if void:
        head.append(f"\n  warning: {void}", style="yellow")
    if obstacle is not None:
        return head.append(f"\n  {obstacle}", style="")
    grid = Table.grid(padding=(0, 2))
    for _ in range(3):
        grid.add_column(overflow="fold")
    if budget.paused:
        head.append(
            "\n  paused: nothing is granted until an owner resumes the dataset; `accountant "
            f"dataset show {budget.dataset}` says who has paused it",
            style="",
        )
    if budget.pause is not None:
        head.append(f"\n  paused: {person_pause_words(budget.pause)}", style="")
    found = may_use(budget, state_of(budget))
    then = "" if found.more_at is None else f"; more comes at {moment(found.more_at)}"
    head.append(f"\n  {found.sentence_with_reason(caller or 'you')}{then}", style="")
    for each in waiting:
        head.append(f"\n  {each.asked} waits for an approval until {moment(each.until)}", style="")
    grid.add_row(
        "  the whole dataset",
        _bar(budget.spent_ratio, budget.held_ratio, "spent"),
        f"left, and not reserved for others: {counting_line(budget.left, budget.budget)}",
    )
    for level in budget.levels:
        name = f"  {scope_words(level.scope, level.name)}"
        if level.until is not None:
            name = f"{name}, until {moment(level.until)}"
        if level.budget is not None:
            left = f"left: {counting_line(level.left, level.budget)}"
            grid.add_row(name, _bar(level.spent_ratio or 0.0, level.held_ratio, "used"), left)
        if level.pace is not None:
            pace = level.pace
            left = f"left: {counting_line(pace.left, pace.budget)}, {next_period(pace)}"
            used = _bar(pace.spent_ratio, pace.held_ratio, "used")
            grid.add_row(f"{name}, {each_period(pace.period)}", used, left)
    return Group(head, grid)


def _bar(ratio: float, reserved: float | None, verb: str = "") -> Text:
    return spent_bar(ratio, reserved=reserved, verb=verb)


def _budget(level: ScopeView, whole: Whole) -> str:
    words = budget_words(level, whole)
    return f"{words}\n{SEPARATELY}" if words and is_default(level) else words


def _pace(level: ScopeView, whole: Whole) -> str:
    pace = level.pace
    if pace is None:
        return ""
    if is_default(level):
        return f"{period_limit_words(pace, whole)}\n{SEPARATELY}\nuntil {moment(pace.ends_at)}"
    left = counting_line(pace.left, pace.budget)
    held = spending(pace.spent_ratio, pace.held_ratio).reserved
    reserved = f", {held} reserved" if held else ""
    return f"{period_limit_words(pace, whole)}\nleft {left}{reserved}\nuntil {moment(pace.ends_at)}"


def _reserved(level: ScopeView, whole: Whole) -> str:
    share = level.reserved
    return (
        ""
        if share is None
        else f"{share_words(share, whole)}\nleft {counting_line(share.left, share.budget)}"
    )
