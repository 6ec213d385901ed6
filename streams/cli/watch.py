"""`accountant watch`: a live table of every budget, and alerts as they come."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.printing.exits import explain_errors
from streams.cli.reading.options import DEFAULT_URL, Json, TokenFile, Url
from streams.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.text import Text

    from accountant.views.datasets import Alert, DatasetView, SeenAlerts
    from streams.client import Accountant

_SHOWN = 8  # alerts under the table, the latest


def watch(
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    once: Annotated[bool, typer.Option("--once", help="Print once, and end.")] = False,
    every: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds between reads.")] = 1.0,
    alerts: Annotated[
        bool,
        typer.Option("--alerts", help="Show only alerts: those reached so far, then new ones."),
    ] = False,
    json: Json = False,
) -> None:
    """Show a live table of every dataset: spent and left, odometers, grants and refusals.

    Also shows each alert that comes meanwhile, once: of datasets, of the limits that you may see,
    of reserved shares that were cut, and of requests that wait for an approval. Ends with Ctrl-C.
    If stdout is no terminal, the command prints a table for each read. With --json it prints one
    object a line for each read: every dataset, then the new alerts.
    """
    from rich.console import Group
    from rich.live import Live

    from streams.cli.printing.output import print_json, stdout
    from streams.cli.printing.safe_streams import output_error
    from streams.cli.printing.tables import dataset_table
    from streams.cli.reading.dataset_reader import reader

    with explain_errors(), reader(url, token_file) as ledger:
        looks = _AlertFinder(ledger, all_that_is_crossed=alerts)
        if alerts or json or once or not stdout().is_terminal:
            while True:
                found = ledger.datasets()
                if not alerts:
                    if json:
                        for view in found:
                            print_json(view)
                    else:
                        stdout().print(dataset_table(found))
                for alert in looks.take(found):
                    if json:
                        print_json(alert)
                    else:
                        stdout().print(_line(alert))
                if once or output_error() is not None:
                    return
                time.sleep(every)
        latest: list[Text] = []
        with Live(console=stdout(), auto_refresh=False, screen=False) as live:
            while True:
                found = ledger.datasets()
                latest = [*latest, *map(_line, looks.take(found))][-_SHOWN:]
                at = time.localtime(SystemClock().now() / 1000)
                title = f"{url}  {time.strftime('%H:%M:%S', at)}"
                live.update(Group(dataset_table(found, title=title), *latest), refresh=True)
                time.sleep(every)


class _AlertFinder:
    """Finds the alerts between two reads; none is lost, however long the time between them."""

    def __init__(self, ledger: Accountant, *, all_that_is_crossed: bool) -> None:
        self._ledger = ledger
        self._all = all_that_is_crossed
        self._known: SeenAlerts | None = None
        self._read: dict[str, tuple[int, int]] = {}

    def take(self, views: Sequence[DatasetView]) -> list[Alert]:
        from accountant.views.datasets import SeenAlerts

        first, self._known = self._known is None, self._known or SeenAlerts()
        new = self._known.take(alert for view in views for alert in self._alerts(view))
        return [] if first and not self._all else new

    def _alerts(self, view: DatasetView) -> Iterator[Alert]:
        """Yield what a dataset and the limits that the reader sees have reached, and what waits."""
        from accountant.views.alerts import alerts_of_waiting, limit_alerts_of_view
        from accountant.views.datasets import alerts
        from streams.cli.reading.dataset_reader import visible_limits

        yield from alerts(None, view)
        state = view.generation, view.sequence
        if self._read.get(view.dataset) != state:  # only a decision changes what limits have used
            for level in visible_limits(self._ledger, view.dataset):
                yield from limit_alerts_of_view(view, level)
            if view.policy.approve_above:
                yield from alerts_of_waiting(view, self._ledger.pending(view.dataset))
            self._read[view.dataset] = state


def _line(alert: Alert) -> Text:
    from rich.text import Text

    from accountant.display.datasets import alert_words
    from accountant.display.times import moment

    is_over = alert.threshold != "" and float(alert.threshold) >= 1
    style = "red" if alert.cut is not None or is_over else "yellow"
    text = Text(f"{moment(alert.decided_at)}  ", style="dim")
    return text.append(alert_words(alert), style=style).append(f"  ({alert.alert_id})", style="dim")
