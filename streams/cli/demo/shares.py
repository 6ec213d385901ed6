"""What each team may use of the datasets, has used and has left, as the ledger tells anybody."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from accountant.display.limits import budget_words, pace_words, share_words
from accountant.display.numbers import left_amounts, part_of
from accountant.display.times import moment
from accountant.limits.wire import Texts
from accountant.views.limit_views import LevelView
from streams.cli.demo.teams import TEAMS
from streams.cli.printing.output import spent_bar

if TYPE_CHECKING:
    from streams.client import AsyncAccountant

_ORDER: Final = {team: number for number, team in enumerate(TEAMS)}


class AnalystShare(NamedTuple):
    """One thing that an owner has said of a team, and what became of it.

    Attributes:
        who: the team, or one of its analysts.
        may: what they may use, or is kept for them.
        used: the part of it that is used, in [0, 1].
        left: what is left, in the unit of the dataset's filter.
        anew: when all of it may be used again, "" for never.
    """

    who: str
    dataset: str
    may: str
    used: Decimal
    left: str
    anew: str = ""


async def shares_of(ledger: AsyncAccountant, datasets: Iterable[str]) -> list[AnalystShare]:
    """Return them as they stand, by team, then by dataset."""
    found = list[tuple[int, AnalystShare]]()
    for dataset in sorted(datasets):
        for level in await ledger.limits(dataset):
            team = level.name or ""
            if level.scope != "each":
                told = list(_told(dataset, team, level))
            else:
                # Of a default there is nothing to tell but of each who stands under it.
                told = [
                    share
                    for analyst in TEAMS[team]
                    for own in (await ledger.budget(dataset, analyst)).levels
                    if own.scope == "each"
                    for share in _told(dataset, f"{team}: {analyst}", own)
                ]
            found += [(_ORDER[team], share) for share in told]
    return [share for _, share in sorted(found, key=lambda each: each[0])]


def _told(dataset: str, who: str, level: LevelView) -> Iterator[AnalystShare]:
    each = " each" if level.scope == "each" else ""
    if level.budget and level.left:
        yield AnalystShare(
            who, dataset, f"{budget_words(level)}{each}", *_rest(level.budget, level.left)
        )
    pace, kept = level.pace, level.reserved
    if pace is not None:
        may = f"{pace_words(pace)}{each}"
        yield AnalystShare(who, dataset, may, *_rest(pace.budget, pace.left), moment(pace.ends_at))
    if kept is not None:
        may = f"{share_words(kept)} reserved"
        yield AnalystShare(who, dataset, may, *_rest(kept.budget, kept.left))


def _rest(budget: Texts, left: Texts) -> tuple[Decimal, str]:
    """Return which part of the first sum is used, and what of it is left."""
    name, whole = next(iter(budget.items()))
    used = part_of(Decimal(whole) - Decimal(left[name]), whole)
    return used, str(left_amounts({name: left[name]})[0])


def shares_table(shares: Sequence[AnalystShare], title: str) -> Table:
    """Return the table of teams: what each may use, has used, and has left."""
    table = Table(title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD)
    table.add_column("team", style="bold", overflow="fold")
    table.add_column("dataset", overflow="fold")
    table.add_column("may use", overflow="fold")
    table.add_column("used", no_wrap=True)
    table.add_column("left", overflow="fold")
    for share in shares:
        left = Text(share.left)
        if share.anew:
            left.append(f"\nagain from {share.anew}", style="dim")
        table.add_row(share.who, share.dataset, share.may, spent_bar(share.used), left)
    return table
