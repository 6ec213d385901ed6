"""What tables show on a narrow screen."""

from __future__ import annotations

import io

from rich.console import Console

from accountant.views.datasets import view_of_ledger
from streams.cli.printing.tables import dataset_table
from tests.accountant.world import opened
from tests.every_case import every_case


@every_case("width", [60, 80, 120])
def test_no_figure_is_cut_short(width: int) -> None:
    world = opened()
    world.ask("pure:0.1")
    (ledger,) = world.state.ledgers.values()
    screen = Console(width=width, file=io.StringIO())
    screen.print(dataset_table([view_of_ledger(ledger)]))
    shown = screen.file.getvalue()
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    for figure in ("20.6 %", "0.01936"):
        assert figure in shown, shown
