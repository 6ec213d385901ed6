"""What the demo prints: the budgets of each evening, the moment one runs out, and a summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from accountant.claims.text import claim_text
from accountant.display.datasets import guarantee
from accountant.display.numbers import percents, tone, unspent_percent
from accountant.display.refusals import refusal_words
from accountant.records.outcomes import Outcome, Reason
from accountant.views.datasets import DatasetView
from streams.cli.demo.refusals import (
    OWN,
    budget_ran_out,
    refused_by,
    refused_by_limit,
    would_fit,
)
from streams.cli.demo.replay import DecidedRequest
from streams.cli.demo.team_limits import TeamLimit, team_limit_table
from streams.cli.demo.week import DAYS
from streams.cli.printing.output import BAR_STYLE, outcome_text
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
    """Prints the week, and counts the outcomes for the summary.

    Attributes:
        outcomes: number of requests by outcome.
        reasons: number of refused requests by reason.
        exhausted_by: number of requests that did not fit, by limit; see `refused_by`.
        verbose: print each day, and each decision of a week with at most `_MOST_LINES` requests.
    """

    def __init__(self, console: Console, requests: int, *, verbose: bool) -> None:
        self.outcomes: Counter[Outcome] = Counter()
        self.reasons: Counter[str] = Counter()
        self.exhausted_by: Counter[str] = Counter()
        self._console = console
        self.verbose = verbose
        self._requests = requests
        self._every_line = requests <= _MOST_LINES
        self._refused: dict[str, DecidedRequest] = {}
        self._evenings: dict[int, dict[str, DatasetView]] = {}
        self._day = -1

    def introduce(self) -> None:
        """Print what the demo shows, and why."""
        requests = f"{self._requests:,} request{'s' * (self._requests != 1)}"
        self._console.print(
            f"A simulated week: five analysts in two teams send {requests} to 3 datasets.\n"
            "The ledger decides each request once. It charges what it grants, and refuses\n"
            "what would exceed a dataset's fixed privacy budget or the limit of a team."
        )

    def show(self, batch: Sequence[DecidedRequest]) -> None:
        """Count some decisions; with --verbose print them."""
        for ask, decision in batch:
            self.outcomes[decision.outcome] += 1
            if decision.outcome.is_refusal and decision.reason is not None:
                self.reasons[decision.reason] += 1
                if decision.reason is Reason.EXHAUSTED:
                    self._count_refusal(DecidedRequest(ask, decision))
            if not self.verbose:
                continue
            if ask.day != self._day:
                self._day = ask.day
                self._console.print(Rule(f"[bold]{DAYS[ask.day]}", style="dim", align="left"))
            if self._every_line:
                self._line(DecidedRequest(ask, decision))

    def _count_refusal(self, decided: DecidedRequest) -> None:
        by = refused_by(decided.decision)
        self.exhausted_by[by] += 1
        first = self._refused.setdefault(by, decided)
        # Prefer the first refusal with a smaller claim that would have fitted.
        if decided.decision.fits and not first.decision.fits:
            self._refused[by] = decided

    def evening(self, views: Sequence[DatasetView], day: int) -> None:
        """Record the budgets at the end of a day; with --verbose print them."""
        self._evenings[day] = {view.dataset: view for view in views}
        if self.verbose:
            title = f"budgets on {DAYS[day]} evening"
            self._console.print(dataset_table(views, title=title))

    def budgets(self) -> None:
        """Print what was left of each budget on each evening."""
        days = sorted(self._evenings)
        table = Table(
            title="budget left each evening",
            title_justify="left",
            title_style="bold",
            header_style="bold",
            box=SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
        )
        table.add_column("dataset", style="bold", no_wrap=True)
        table.add_column("budget", no_wrap=True)
        for day in days:
            table.add_column(DAYS[day], justify="right", no_wrap=True)
        for name, view in self._evenings[days[-1]].items():
            ratios = [self._evenings[day][name].spent_ratio for day in days]
            cells = [Text(_left(each), style=BAR_STYLE[tone(each)]) for each in ratios]
            table.add_row(name, guarantee(view.policy).partition(",")[0], *cells)
        self._console.print(table)

    def teams(self, limits: Sequence[TeamLimit], day: int) -> None:
        """Print the limit of each team, what it has used and what is left."""
        self._console.print(team_limit_table(limits, f"teams on {DAYS[day]} evening"))

    def refusals(self) -> None:
        """Print the moment a budget runs out, and the first refusal by each limit."""
        own = self._refused.get(OWN)
        if own is not None:
            self._console.print(
                Text("the moment a budget runs out, which nobody can raise", style="bold red")
            )
            self._lines(budget_ran_out(own))
        limited = [each for by, each in self._refused.items() if by != OWN]
        if limited:
            self._console.print(Text("the first refusal by each limit", style="bold"))
            self._lines(map(refused_by_limit, limited))

    def _lines(self, lines: Iterable[str]) -> None:
        for each in lines:
            line = Text(f"  {each}", no_wrap=True, overflow="ellipsis")
            self._console.print(line)

    def _line(self, decided: DecidedRequest) -> None:
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
            line.append(f"  alert {percents(decision.crossed)}", style="yellow")
        self._console.print(line)
        if decision.reason is Reason.EXHAUSTED:
            for detail in (f"└ {refusal_words(decision)}", f"  {would_fit(decision)}"):
                more = Text(f"       {detail}", no_wrap=True, overflow="ellipsis", style="dim")
                self._console.print(more)

    def summary(self, *, audit: str, run_audit: int, seconds: float, where: str) -> None:
        """Print the outcomes of the week, the audit, and where the ledger is."""
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column()
        counts = Text()
        for outcome, count in self.outcomes.most_common():
            counts.append(", " if counts else "").append(f"{count} ")
            counts.append_text(outcome_text(outcome))
            if outcome.is_refusal:
                counts.append(f" ({self.reasons[Reason.EXHAUSTED]} did not fit)")
        grid.add_row("decided", counts.append(f", in {seconds:.1f} seconds"))
        style = "green" if audit == "ok" else "yellow" if audit == "skipped" else "bold red"
        result = {
            "ok": f"ok: {run_audit} decisions were decided again, with the same results",
            "skipped": "skipped: the whole log cannot be read over HTTP",
        }.get(audit, audit)
        grid.add_row("audit", Text(result, style=style))
        grid.add_row("ledger", where)
        self._console.print(grid)
        if not self.verbose:
            self._console.print(
                "[dim]--verbose shows each decision, each evening's odometers and each limit[/]"
            )


def _left(spent_ratio: float) -> str:
    return unspent_percent(spent_ratio).replace("under ", "<").replace("over ", ">")
