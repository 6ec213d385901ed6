"""Requests that wait for an owner's approval, as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from accountant.display.approvals import cost_line
from accountant.display.reservations import SHORT_GRANT
from accountant.display.times import moment

if TYPE_CHECKING:
    from accountant.advice.preview import Preview
    from accountant.views.datasets import DatasetView
    from accountant.views.pending import PendingView


def pending_table(
    found: Iterable[PendingView], view: DatasetView, previews: Mapping[str, Preview]
) -> Table:
    """Return the table of requests that wait.

    Args:
        previews: what would be decided on each now, by its hash, as far as that is known.
    """
    table = Table(header_style="bold", box=SIMPLE_HEAD)
    for column in ("pending", "analyst", "asks for", "costs", "purpose", "since", "until"):
        table.add_column(column, overflow="fold", no_wrap=column == "pending")
    for each in found:
        analyst = each.analyst if each.via is None else f"{each.analyst} by {each.via}"
        cells = (
            each.pending[:SHORT_GRANT],
            analyst,
            each.asked,
            _cost(view, previews.get(each.pending)),
            each.purpose,
            moment(each.pending_at),
            moment(each.until),
        )
        table.add_row(*map(Text, cells))
    return table


def _cost(view: DatasetView, preview: Preview | None) -> str:
    """Return what a request would cost now, and why an approval of it would be refused."""
    if preview is None:
        return ""
    line = cost_line(view, preview)
    return line if preview.granted else f"{line}\nwould be refused ({preview.reason})".strip()
