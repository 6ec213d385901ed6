"""What each team may use of a dataset, and has used, as the decisions themselves tell it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from accountant.records import Decision
from accountant.records.limits.check import days_of
from accountant.records.limits.limits import DAY_MS, LevelMoved, LimitTold, Scope, Texts
from accountant.times import from_iso, iso
from streams.cli.demo.teams import TEAMS
from streams.cli.printing.output import short, spent_bar

_NONE: Final = Decimal(0)


class Share(NamedTuple):
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
    used: float
    left: str
    anew: str = ""


class Shares:
    """Limits, paces and shares of the demo's datasets; each decision is shown to it once."""

    def __init__(self) -> None:
        self._set: dict[tuple[str, Scope, str], Decision] = {}
        self._moved: dict[tuple[str, Scope, str, str], tuple[int, LevelMoved]] = {}

    def divided(self, decisions: Sequence[Decision]) -> None:
        """Take in what owners have said."""
        for decision in decisions:
            limit = decision.limit
            if limit is not None:
                self._set[str(decision.dataset), limit.scope, limit.name or ""] = decision

    def decided(self, analyst: str, decision: Decision) -> None:
        """Take in a decision on somebody's request."""
        for level in decision.levels:
            whose = analyst if level.scope == "each" else ""
            key = str(decision.dataset), level.scope, level.name or "", whose
            number = decision.sequence or 0
            # Decisions on requests that were under way together may come in another order.
            if key not in self._moved or self._moved[key][0] < number:
                self._moved[key] = number, level

    def ends(self, dataset: str, scope: Scope, name: str, analyst: str = "") -> str:
        """Return when the period of a pace ends that was used last, as `2026-12-01 10:00 UTC`."""
        made = self._set[dataset, scope, name]
        assert made.limit is not None
        assert made.limit.pace is not None
        moved = self._moved.get((dataset, scope, name, analyst if scope == "each" else ""))
        window = (moved[1].window if moved else None) or 0
        period = days_of(made.limit.pace.period) * DAY_MS
        end = iso(from_iso(made.decided_at) + (window + 1) * period)
        return f"{end[:10]} {end[11:16]} UTC"

    def all(self) -> list[Share]:
        """Return them as they stand, by team, then by dataset."""
        order = {team: number for number, team in enumerate(TEAMS)}
        keys = sorted(self._set, key=lambda key: (order.get(key[2], len(order)), key[0]))
        return [share for key in keys for share in self._of(*key)]

    def _of(self, dataset: str, scope: Scope, name: str) -> Iterator[Share]:
        told = self._set[dataset, scope, name].limit
        assert told is not None
        for analyst in TEAMS.get(name, ()) if scope == "each" else ("",):
            moved = self._moved.get((dataset, scope, name, analyst))
            yield from self._said(dataset, told, analyst, moved[1] if moved else None)

    def _said(
        self, dataset: str, told: LimitTold, analyst: str, moved: LevelMoved | None
    ) -> Iterator[Share]:
        name = told.name or ""
        who = f"{name}: {analyst}" if analyst else name
        if told.budget is not None:
            may = f"{told.part} of it" + (" each" if analyst else "")
            yield Share(who, dataset, may, *_left(told.budget, moved.totals if moved else None))
        if told.pace is not None:
            may = f"{told.pace.part} of it in {days_of(told.pace.period)} days"
            ends = self.ends(dataset, told.scope, name, analyst)
            yield Share(
                who, dataset, may, *_left(told.pace.budget, moved.paced if moved else None), ends
            )
        if told.reserved is not None:
            may = f"{told.reserved.part} of it is kept for them"
            yield Share(
                who, dataset, may, *_left(told.reserved.budget, moved.used if moved else None)
            )


def _left(budget: Texts, used: Texts | None) -> tuple[float, str]:
    """Return which part of the first sum is used, and what of it is left."""
    name, most = next(iter(budget.items()))
    whole = Decimal(most)
    # A team may use more than what is kept for it.
    spent = min(whole, Decimal((used or {}).get(name, _NONE)))
    return float(spent / whole), f"{name} {short(str(whole - spent), 4)}"


def shares_table(shares: Sequence[Share], title: str) -> Table:
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
            left.append(f"\nall anew {share.anew}", style="dim")
        table.add_row(share.who, share.dataset, share.may, spent_bar(share.used), left)
    return table
