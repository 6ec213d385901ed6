"""Requests that wait for an owner's approval, as a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from accountant.display.reservations import SHORT_GRANT
from accountant.display.times import moment

if TYPE_CHECKING:
    from accountant.views.pending import PendingView


def pending_table(found: Iterable[PendingView]) -> Table:
    """Return the table of requests that wait."""
    table = Table(header_style="bold", box=SIMPLE_HEAD)
    for column in ("pending", "analyst", "asks for", "purpose", "since", "until"):
        table.add_column(column, overflow="fold", no_wrap=column == "pending")
    for each in found:
        analyst = each.analyst if each.via is None else f"{each.analyst} by {each.via}"
        cells = (
            each.pending[:SHORT_GRANT],
            analyst,
            each.asked,
            each.purpose,
            moment(each.pending_at),
            moment(each.until),
        )
        table.add_row(*map(Text, cells))
    return table
