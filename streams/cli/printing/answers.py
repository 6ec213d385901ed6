"""The table of answers to a dataset's questions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from accountant.display.answers import answer_in_short, question_line
from accountant.display.numbers import spent_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from accountant.answers import NoisyAnswer


def answer_table(found: Iterable[NoisyAnswer]) -> Table:
    """Return the table of answers, each in a line."""
    table = Table(header_style="bold", box=SIMPLE_HEAD)
    for column in ("id", "analyst", "question", "answer", "cost"):
        table.add_column(column, overflow="fold", no_wrap=column == "id")
    for each in found:
        cells = (
            each.request_id,
            each.analyst,
            question_line(each),
            answer_in_short(each),
            spent_line(each.cost),
        )
        table.add_row(*map(Text, cells))
    return table
