"""Releases without an answer, as a table."""

from __future__ import annotations

from collections.abc import Iterable

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from accountant.display.times import moment
from streams.cli.reading.unanswered import UnansweredRelease


def unanswered_table(releases: Iterable[UnansweredRelease]) -> Table:
    """Return the table of releases that have no answer."""
    table = Table(header_style="bold", box=SIMPLE_HEAD)
    for column in ("asked at", "dataset", "analyst", "claim", "charged", "request_id"):
        table.add_column(column, overflow="fold", no_wrap=column == "request_id")
    for each in releases:
        charged = "yes" if each.charged else "perhaps"
        table.add_row(
            *map(
                Text,
                (
                    moment(each.asked_at),
                    each.dataset,
                    each.analyst,
                    each.claim,
                    charged,
                    each.request_id,
                ),
            )
        )
    return table
