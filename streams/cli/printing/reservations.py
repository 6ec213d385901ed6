"""The table of a dataset's open reservations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from accountant.claims.text import claim_text
from accountant.display.reservations import (
    SHORT_GRANT,
    deadline_words,
    held_words,
    reservation_state_words,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from accountant.views.reservations import ReservationView


def reservation_table(found: Iterable[ReservationView]) -> Table:
    """Return the table of open reservations."""
    table = Table(header_style="bold", box=SIMPLE_HEAD)
    for column in ("grant", "analyst", "claim", "purpose", "holds", "state", "until"):
        table.add_column(column, overflow="fold", no_wrap=column == "grant")
    for each in found:
        analyst = each.analyst if each.via is None else f"{each.analyst} by {each.via}"
        cells = (
            each.grant[:SHORT_GRANT],
            analyst,
            claim_text(each.claim),
            each.purpose,
            held_words(each),
            reservation_state_words(each),
            deadline_words(each),
        )
        table.add_row(*map(Text, cells))
    return table
