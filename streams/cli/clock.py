"""`accountant clock`: repair a log after the machine's clock was wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail
from streams.cli.printing.say import say
from streams.cli.reading.options import DEFAULT_URL, Json, Url
from streams.cli.stopped_ledger import stopped_settings, write_records

if TYPE_CHECKING:
    from accountant.records.encoded_decision import EncodedDecision

app = typer.Typer(help="Repair a log after the machine's clock was wrong.", no_args_is_help=True)


@app.callback()
def main() -> None:
    """Make typer expect a subcommand although there is only one."""


@app.command("reset")
def reset_clock(
    reason: Annotated[str, typer.Option(help="Why; recorded permanently, 1 to 200 characters.")],
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Set the clock of a stopped ledger's log back to this machine's clock.

    For a log that was written while a machine's clock was ahead. Writes one decision,
    `clock_reset`, on Kafka one into each partition that is ahead. Budgets do not change. Ids
    created until 5 minutes from now expire; after that the ledger decides requests again.
    """
    from streams.cli.printing.output import write_lines
    from streams.evidence import operator_records

    def report(partition: int, done: EncodedDecision | None) -> None:
        where = f"partition {partition}: " if settings.ledger.kind == "kafka" else ""
        if json:
            write_lines([] if done is None else [done.value])
        elif done is not None:
            say(where + _reset_text(done, settings.skew_ms))
        elif where:
            say(f"{where}not ahead, nothing was written")

    with explain_errors():
        settings = stopped_settings(url)
        written = write_records(
            settings,
            lambda log: operator_records.reset_clock(
                log.journal, log.genesis, log.clock, reason, compare=log.compare
            ),
            report,
        )
    if not written:
        fail(Exit.FAILED, "the log is not ahead of this machine's clock: nothing was written")


def _reset_text(done: EncodedDecision, skew_ms: int) -> str:
    """Return what was written, and from when on requests are decided."""
    from accountant.times import iso

    return (
        f"decision {done.partition_sequence} sets the clock of the log to {iso(done.decided_at)}\n"
        f"next: start the ledger again; new ids are accepted from "
        f"{iso(done.decided_at + skew_ms)} on"
    )
