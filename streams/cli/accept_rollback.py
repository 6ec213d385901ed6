"""`accountant accept-rollback`: go on with a log that has lost decisions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.printing.exits import Exit, explained, fail
from streams.cli.reading.options import DEFAULT_URL, Json, Url

if TYPE_CHECKING:
    from accountant.records.decided import Encoded
    from streams.settings import Settings


def accept_rollback(
    lost: Annotated[
        str, typer.Option(help="The decisions that are lost, FIRST-LAST: the refusal names them.")
    ],
    reason: Annotated[
        str, typer.Option(help="Why, for people; kept for ever, 1 to 200 characters.")
    ],
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Go on with a stopped ledger's log that has lost decisions which a checkpoint has seen.

    Such as after a backup was put back on purpose. What was granted in the lost decisions ran, and
    is not charged: lower the budgets by hand if you know how much that was. Writes one decision,
    `rolled_back`, signed by the key of the checkpoints; `audit`, metrics and the views tell of it
    for ever.
    """
    from streams.cli.printing.output import write_lines
    from streams.settings import load

    with explained():
        settings = load(url=url)
        kind, _ = settings.ledger
        if kind != "sqlite":
            fail(Exit.USAGE, "only a ledger in a file keeps checkpoints of its own: sqlite:///FILE")
        done = _accept(settings, lost, reason)
    if done is None:
        fail(Exit.FAILED, "the log goes on from its newest checkpoint: nothing was written")
    if json:
        write_lines([done.value])
        return
    typer.echo(
        f"decision {done.partition_sequence}: the decisions {lost} are given up\n"
        "start the ledger again"
    )


def _accept(settings: Settings, lost: str, reason: str) -> Encoded | None:
    from streams.checkpoints.accept import accept
    from streams.client.connect import check_there
    from streams.clock import SystemClock
    from streams.embedded.file_ownership import stopped_ledger
    from streams.embedded.own_checkpoints.place import decision_at, kept_of

    path, clock = Path(settings.ledger[1]).absolute(), SystemClock()
    check_there(path)
    with stopped_ledger(path, settings, clock.now()) as (journal, genesis):
        kept = kept_of(path, settings)
        made = accept(
            journal,
            genesis,
            clock,
            kept,
            lambda number: decision_at(path, number),
            lost=lost,
            note=reason,
        )
        return asyncio.run(made)
