"""`accountant clock`: what to do after a machine's clock was wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from streams.cli.printing.exits import Exit, explained, fail
from streams.cli.reading.options import DEFAULT_URL, Json, Url

app = typer.Typer(help="Mend what a wrong clock has left in a log.", no_args_is_help=True)


@app.callback()
def main() -> None:
    """Have a subcommand even where there is only one."""


@app.command("reset")
def reset_clock(
    reason: Annotated[
        str, typer.Option(help="Why, for people; kept for ever, 1 to 200 characters.")
    ],
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Set the clock of a stopped ledger's log back to this machine's, after one was ahead.

    Writes one decision, `clock_reset`. Nothing is charged or given back. Ids issued until 5 minutes
    from now expire, so requests are decided again after that.
    """
    from accountant.times import iso
    from streams.cli.printing.output import write_lines
    from streams.client.connect import check_there
    from streams.clock import SystemClock
    from streams.embedded.file_ownership import stopped_ledger
    from streams.processing.clock_reset import reset
    from streams.settings import load

    with explained():
        settings = load(url=url)
        kind, target = settings.ledger
        if kind != "sqlite":
            fail(Exit.USAGE, "the clock of a file is reset (sqlite:///FILE), with no serve on it")
        check_there(Path(target))
        clock = SystemClock()
        with stopped_ledger(Path(target), settings, clock.now()) as (journal, genesis):
            done = asyncio.run(reset(journal, genesis, clock, reason))
    if done is None:
        fail(Exit.FAILED, "the log is not ahead of this machine's clock: nothing was written")
    if json:
        write_lines([done.value])
        return
    again = iso(done.decided_at + settings.skew_ms)
    typer.echo(
        f"decision {done.partition_sequence}: the clock of the log is {iso(done.decided_at)}"
    )
    typer.echo(f"requests with new ids are decided from {again} on; start the ledger again")
