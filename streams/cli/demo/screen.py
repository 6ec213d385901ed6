"""What the demo shows: budgets beside odometers, teams, a summary; asked for, each decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from accountant.claims.text import claim_text
from accountant.display.numbers import percents
from accountant.records.outcomes import Outcome, Reason
from accountant.views.datasets import DatasetView
from streams.cli.demo.refusals import OWN, asked_and_left, in_words, refused_by, would_fit
from streams.cli.demo.replay import Decided
from streams.cli.demo.shares import AnalystShare, shares_table
from streams.cli.demo.week import DAYS
from streams.cli.printing.output import outcome_text
from streams.cli.printing.tables import dataset_table

_MOST_LINES: Final = 1_000
_ANALYST_STYLE: Final = {
    "ana": "cyan",
    "ben": "magenta",
    "chloe": "blue",
    "dev": "yellow",
    "eve": "bright_red",
}


class Screen:
    """Prints the week.

    Attributes:
        outcomes: how many requests had each outcome.
        reasons: why requests were refused.
        exhausted_by: of those without room, which level had none, see `refused_by`.
        verbose: the days are shown, and of a week that is not too long each decision.
    """

    def __init__(self, console: Console, requests: int, *, verbose: bool) -> None:
        self.outcomes: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.exhausted_by: Counter[str] = Counter()
        self._console = console
        self.verbose = verbose
        self._every_line = requests <= _MOST_LINES
        self._refused: dict[str, Decided] = {}
        self._day = -1

    def decided(self, batch: Sequence[Decided]) -> None:
        """Show some decisions."""
        for ask, decision in batch:
            self.outcomes[decision.outcome] += 1
            if decision.outcome is Outcome.REFUSED and decision.reason is not None:
                self.reasons[decision.reason] += 1
                if decision.reason is Reason.EXHAUSTED:
                    self._without_room(Decided(ask, decision))
            if not self.verbose:
                continue
            if ask.day != self._day:
                self._day = ask.day
                self._console.print(Rule(f"[bold]{DAYS[ask.day]}", style="dim", align="left"))
            if self._every_line:
                self._line(Decided(ask, decision))

    def _without_room(self, decided: Decided) -> None:
        by = refused_by(decided.decision)
        self.exhausted_by[by] += 1
        first = self._refused.setdefault(by, decided)
        # Of each kind the first is shown that something would have fitted instead of.
        if decided.decision.fits and not first.decision.fits:
            self._refused[by] = decided

    def budgets(self, views: Sequence[DatasetView], title: str) -> None:
        """Show the filters and, beside them, the odometers."""
        self._console.print(dataset_table(views, title=title))

    def teams(self, shares: Sequence[AnalystShare], day: int) -> None:
        """Show what each team may use, has used and has left, and a refusal by each level."""
        title = f"teams on {DAYS[day]} evening"
        self._console.print(shares_table(shares, title))
        for by in sorted(self._refused, key=lambda by: by == OWN):
            refused, then = in_words(self._refused[by])
            self._console.print(Text(refused), soft_wrap=True)
            self._console.print(Text(f"  {then}", style="dim"), soft_wrap=True)
        if self._refused:
            self._console.print()

    def _line(self, decided: Decided) -> None:
        ask, decision = decided
        wide = self._console.width >= 110
        line = Text(no_wrap=True, overflow="ellipsis")
        line.append(f"{ask.purpose[4:9]}  ", style="dim")
        line.append(f"{ask.analyst:<6}", style=_ANALYST_STYLE.get(ask.analyst, ""))
        line.append(f"{ask.dataset:<8}")
        if wide:
            line.append(f"{ask.question:<31}", style="dim")
        line.append(f"{claim_text(ask.claim):<41} ")
        line.append_text(outcome_text(decision.outcome))
        if decision.reason is not None:
            line.append(f" {decision.reason}", style="red")
        if decision.crossed:
            line.append(f"  crossed {percents(decision.crossed)}", style="yellow")
        self._console.print(line)
        if decision.reason is Reason.EXHAUSTED:
            for told in (f"└ {asked_and_left(decision)}", f"  {would_fit(decision)}"):
                more = Text(f"       {told}", no_wrap=True, overflow="ellipsis", style="dim")
                self._console.print(more)

    def summary(self, *, audit: str, audited: int, seconds: float, where: str) -> None:
        """Show what became of the week."""
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column()
        grid.add_row("requests", str(self.outcomes.total()))
        for outcome, count in self.outcomes.most_common():
            why = ""
            if outcome == Outcome.REFUSED:
                parts = [f"{count} {reason}" for reason, count in self.reasons.most_common()]
                why = f"  ({', '.join(parts)})"
            grid.add_row(outcome_text(outcome), f"{count}{why}")
        style = "green" if audit == "ok" else "yellow" if audit == "skipped" else "bold red"
        told = {
            "ok": f"ok: {audited} decisions, each decided again; chain and sums agree",
            "skipped": "skipped: a gateway does not serve the whole log",
        }.get(audit, audit)
        grid.add_row("audit", Text(told, style=style))
        grid.add_row("seconds", f"{seconds:.1f}")
        grid.add_row("ledger", where)
        if self.verbose:
            self._console.print(Rule("[bold]The week", style="dim", align="left"))
        self._console.print(grid)
        self._console.print(
            "[dim]The guarantee is the policy's constant. An odometer may stand above it: it may "
            "be read at any time, and promises more.[/]"
        )
        if not self.verbose:
            self._console.print("[dim]--verbose shows each decision, and each evening's budgets[/]")
