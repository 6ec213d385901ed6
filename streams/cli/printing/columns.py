"""The table of a dataset's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from accountant.display.columns import HEAD

if TYPE_CHECKING:
    from streams.notebooks.columns import SchemaColumns


def column_table(found: SchemaColumns) -> Table:
    """Return a row for each column; its questions stand one below the other."""
    table = Table(header_style="bold", box=SIMPLE_HEAD)
    for heading in HEAD:
        table.add_column(heading, overflow="fold")
    for each in found:
        *cells, _ = each.cells
        table.add_row(*map(Text, (*cells, "\n".join(each.questions))))
    return table
