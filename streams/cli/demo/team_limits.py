"""What each team may use of the datasets, has used and has left, as the ledger tells anybody."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from accountant.display.limits import budget_words, period_limit_words, share_words
from accountant.display.numbers import part_of, remaining_amounts
from accountant.display.times import moment
from accountant.records.limit_records import Texts
from accountant.views.limit_views import ScopeView
from streams.cli.demo.teams import TEAMS
from streams.cli.printing.output import spent_bar

if TYPE_CHECKING:
    from streams.client import AsyncAccountant

_ORDER: Final = {team: number for number, team in enumerate(TEAMS)}


class TeamLimit(NamedTuple):
    """A row of the table of limits: what a team or analyst may use, has used, and has left.

    Attributes:
        holder: the team, or one of its analysts.
        may: the limit in words.
        used: the used part of the limit, in [0, 1].
        left: the remaining amount, in the unit of the dataset's filter.
        resets_at: when the limit resets, "" for never.
    """

    holder: str
    dataset: str
    may: str
    used: Decimal
    left: str
    resets_at: str = ""


async def team_limits(ledger: AsyncAccountant, datasets: Iterable[str]) -> list[TeamLimit]:
    """Return the current limits, by team, then by dataset."""
    found = list[tuple[int, TeamLimit]]()
    for dataset in sorted(datasets):
        for level in await ledger.limits(dataset):
            team = level.name or ""
            if level.scope != "each":
                rows = list(_limit_rows(dataset, team, level))
            else:
                # Nobody uses a default itself: show each analyst that it applies to.
                rows = [
                    limit
                    for analyst in TEAMS[team]
                    for own in (await ledger.budget(dataset, analyst)).levels
                    if own.scope == "each"
                    for limit in _limit_rows(dataset, f"{team}: {analyst}", own)
                ]
            found += [(_ORDER[team], limit) for limit in rows]
    return [limit for _, limit in sorted(found, key=lambda each: each[0])]


def _limit_rows(dataset: str, holder: str, level: ScopeView) -> Iterator[TeamLimit]:
    each = " each" if level.scope == "each" else ""
    if level.budget and level.left:
        yield TeamLimit(
            holder, dataset, f"{budget_words(level)}{each}", *_rest(level.budget, level.left)
        )
    pace, reserved = level.pace, level.reserved
    if pace is not None:
        may = f"{period_limit_words(pace)}{each}"
        yield TeamLimit(holder, dataset, may, *_rest(pace.budget, pace.left), moment(pace.ends_at))
    if reserved is not None:
        may = f"{share_words(reserved)} reserved"
        yield TeamLimit(holder, dataset, may, *_rest(reserved.budget, reserved.left))


def _rest(budget: Texts, left: Texts) -> tuple[Decimal, str]:
    """Return the used part of the first sum, and the remaining amount."""
    name, whole = next(iter(budget.items()))
    used = part_of(Decimal(whole) - Decimal(left[name]), whole)
    return used, str(remaining_amounts({name: left[name]})[0])


def team_limit_table(limits: Sequence[TeamLimit], title: str) -> Table:
    """Return the table of limits."""
    table = Table(title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD)
    table.add_column("team", style="bold", overflow="fold")
    table.add_column("dataset", overflow="fold")
    table.add_column("may use", overflow="fold")
    table.add_column("used", no_wrap=True)
    table.add_column("left", overflow="fold")
    for limit in limits:
        left = Text(limit.left)
        if limit.resets_at:
            left.append(f"\nagain from {limit.resets_at}", style="dim")
        table.add_row(limit.holder, limit.dataset, limit.may, spent_bar(limit.used), left)
    return table
