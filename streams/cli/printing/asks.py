"""Tables of asks for more, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from accountant.display.asks import wanted_words
from accountant.display.times import moment
from accountant.foreign_text import escape_text

if TYPE_CHECKING:
    from accountant.views.asks import AskView


def ask_table(asks: Sequence[AskView]) -> Table:
    """Return the table of a dataset's asks."""
    table = Table(header_style="bold", box=SIMPLE_HEAD)
    for column in ("ask", "by", "wants", "why", "asked", "answer"):
        table.add_column(column, overflow="fold")
    for each in asks:
        answer: str = each.state
        if each.answered_by is not None:
            # An owner may give less than is asked for: the decision says what.
            answer += f" by {each.answered_by}, {moment(each.answered_at)}, decision {each.answer}"
            answer += f": {escape_text(each.why)}" if each.why else ""
        why, asked = escape_text(each.reason), moment(each.asked_at)
        cells = (str(each.ask), each.by, wanted_words(each), why, asked, answer)
        table.add_row(*map(Text, cells))
    return table
