"""Prints what a policy would promise and admit, before a dataset is opened under it."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from accountant.display.numbers import spent_amount, symbol
from accountant.display.one_way_choices import one_way_choices
from accountant.display.opening_previews import (
    preview_rows,
    takes_no_delta,
    thresholds,
    typical_fits,
)
from accountant.policy import guarantee_of
from accountant.policy.compiled_policy import CompiledPolicy


def preview_json(name: str, plan: CompiledPolicy, *, not_added: str) -> dict[str, Any]:
    """Return the preview for scripts; amounts are exact.

    Args:
        not_added: as of `one_way_choices`.
    """
    kind, amount, delta = guarantee_of(plan.policy)
    return {
        "preview": True,
        "dataset": name,
        "guarantee": {kind: f"{amount:f}", "delta": f"{delta:f}"},
        "policy": plan.policy,
        "budget": plan.budget_wire,
        "thresholds": thresholds(plan),
        "one_way": [each._asdict() for each in one_way_choices(plan, not_added=not_added)],
        "fits": {text: found.count for text, found in typical_fits(plan).items() if found.accepted},
        "not_taken": [text for text, found in typical_fits(plan).items() if not found.accepted],
    }


def preview_table(name: str, plan: CompiledPolicy, *, not_added: str) -> RenderableType:
    """Return the preview for people.

    Args:
        not_added: as of `one_way_choices`.
    """
    unit = plan.kind.sums[0]
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for label, value in preview_rows(name, plan):
        grid.add_row(label, value)
    table = Table(header_style="bold", box=SIMPLE_HEAD)
    table.add_column("claim", no_wrap=True)
    table.add_column(f"cost ({symbol(unit)})", justify="right")
    table.add_column("fit", justify="right", style="bold")
    for text, found in typical_fits(plan).items():
        count = "unlimited" if found.count is None else str(found.count)
        cells = (spent_amount(found.cost), count) if found.accepted else ("not accepted", "–")
        table.add_row(text, *cells)
    if remark := takes_no_delta(plan):
        table.caption, table.caption_justify = remark, "left"
    head = Text(f"{name}: a preview, nothing was opened", style="bold")
    return Group(head, _questions(plan, not_added), grid, table)


def _questions(plan: CompiledPolicy, not_added: str) -> Table:
    """Return what the opening fixes for ever, as questions with answers."""
    table = Table(header_style="bold", box=SIMPLE_HEAD)
    table.add_column("fixed for ever by the opening")
    table.add_column("here", no_wrap=True)
    table.add_column("to have it, open with")
    for each in one_way_choices(plan, not_added=not_added):
        answer = ("yes", "") if each.allowed else ("no", each.change)
        table.add_row(each.question, *answer)
    return table
