"""Prints what the decision on a request would be, and how many more would be granted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer
from rich.text import Text

from accountant.display.approvals import approval_words
from accountant.display.current_dataset import CurrentDataset, owner_words
from accountant.display.datasets import more_words, void_sentence
from accountant.display.endings import ending_words
from accountant.display.expected_errors import error_words, price_table
from accountant.display.limits import left_at_words
from accountant.display.refusals import when_more
from accountant.errors import BudgetError
from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.output import print_json, stdout
from streams.cli.printing.say import say
from streams.cli.printing.tables import amount_lines, refusal_lines
from streams.cli.reading.analysts import fail_without_analyst, scopes_of
from streams.cli.reading.dataset_reader import (
    current_dataset,
    get_dataset,
    reader,
    visible_members,
    with_joint_guarantee,
)

if TYPE_CHECKING:
    from accountant.advice.preview import Preview
    from accountant.claims import Claim
    from accountant.views.datasets import DatasetView
    from accountant.views.limit_views import ScopeView
    from streams.client import Accountant


def dry_run(
    dataset: str,
    cost: Callable[[Accountant], Preview],
    last_line: Callable[[Preview, DatasetView], str | None],
    *,
    claim: Claim | None = None,
    analyst: str | None,
    via: str | None,
    url: str,
    token_file: Path | None,
    json: bool,
) -> NoReturn:
    """Print what the decision on a request would be, and end the command.

    Args:
        cost: asks the ledger. `last_line`: what is printed at the end, None for nothing.
        claim: the one that is asked about, if it is no question.
    """
    with reader(url, token_file) as ledger:
        view = with_joint_guarantee(get_dataset(ledger, dataset), ledger)
        matters = via is not None or view.policy.access == "members"
        if analyst is None and matters and not ledger.token_source:
            fail_without_analyst(ledger)
        shown = cost(ledger)
        levels = () if json or not shown.left_at else scopes_of(ledger, dataset, analyst)
        current = CurrentDataset(view)
        if not json and shown.reason is not None:
            current = current_dataset(ledger, view, [], visible_members(ledger, dataset))
    print_preview(shown, current, levels, claim, as_json=json)
    if not json and (line := last_line(shown, view)):
        say(line)
    if not json and shown.granted and (void := void_sentence(view)):
        say(f"warning: {void}", err=True)
    if not shown.granted:
        raise typer.Exit(Exit.FAILED)
    raise typer.Exit(Exit.PENDING if shown.needs_approval else Exit.WOULD_GRANT)


def more_after_grant(cost: Callable[[], Preview]) -> str | None:
    """Return how many more like a grant would be granted, None where that is not known."""
    try:
        shown = cost()
    except BudgetError:  # the grant is printed even if this second read fails
        return None
    if not shown.granted:
        return more_words(0)
    return more_words(None if shown.more is None else shown.more + 1)


def print_preview(
    shown: Preview,
    current: CurrentDataset,
    levels: Sequence[ScopeView] = (),
    claim: Claim | None = None,
    *,
    as_json: bool,
) -> None:
    """Print what the decision would be; the first line says that nothing was recorded.

    Args:
        levels: the limits of the analyst, if they are known. `claim`: as of `dry_run`.
    """
    if as_json:
        print_json(shown)
        return
    for line in _lines(shown, current, levels, claim):
        stdout().print(line, soft_wrap=True)


def _lines(
    shown: Preview, current: CurrentDataset, levels: Sequence[ScopeView], claim: Claim | None
) -> list[Text]:
    head = Text("would ")
    if shown.needs_approval:
        head.append("wait for an owner's approval", style="yellow")
    elif shown.granted:
        head.append("be ").append("granted", style="green")
    else:
        head.append("be ").append("refused", style="red")
    if shown.reason is not None:
        head.append(f" ({shown.reason})")
    lines = [head.append("; this was a dry run, nothing was recorded")]
    lines += refusal_lines(shown, levels, current=current, claim=claim)
    lines += amount_lines(
        shown.left,
        budget=current.view.budget,
        beside_limits=bool(shown.left_at),
        cost=shown.cost,
        asked=shown.asked,
    )
    for words in left_at_words(shown.limits_left or (), shown.left):
        lines.append(Text(f"        {words}"))
    if shown.needs_approval:
        lines.append(Text(f"  wait  a request {approval_words(current.view.policy)}"))
    if shown.granted:
        lines.append(Text(f"  then  {more_words(shown.more)}", style="bold"))
    elif shown.fits is not None:
        lines.append(Text(f"  fits  {shown.fits}", style="bold"))
    if (more := when_more(shown, owner=owner_words(current.members), current=current)) is not None:
        lines.append(Text(f"  then  {more.text}"))
        if command := more.command(current.view.dataset, "ANALYST"):
            lines.append(Text(f"  ask   {command}"))
    if ends := ending_words(shown):
        lines.append(Text(f"  ends  {ends}", style="yellow"))
    lines += [Text(f"  error {error_words(each)}") for each in shown.expected_errors or ()]
    return lines + _price_lines(shown)


def _price_lines(shown: Preview) -> list[Text]:
    """Return the table of the question at several prices, none of a claim."""
    head, rows = price_table(shown)
    if not rows:
        return []
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [
        "  ".join([cell.ljust(width) for cell, width in zip(row, widths, strict=True)]).rstrip()
        for row in (head, *rows)
    ]
    return [Text("  at five prices:"), *(Text(f"    {each}") for each in lines)]
