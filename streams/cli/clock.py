"""`accountant clock`: what to do after a machine's clock was wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.printing.exits import Exit, explained, fail
from streams.cli.printing.say import say
from streams.cli.reading.options import DEFAULT_URL, Json, Url

if TYPE_CHECKING:
    from accountant.records.decided import Encoded
    from streams.clock import Clock
    from streams.kafka.deployment import Deployment
    from streams.settings import Settings

Tell = Callable[[int, "Encoded | None"], None]
"""Called with each partition and its decision, None if its log is not ahead."""

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

    Writes one decision, `clock_reset`, on Kafka one into each partition that is ahead. Nothing is
    charged or given back. Ids issued until 5 minutes from now expire, so requests are decided again
    after that.
    """
    from streams.cli.printing.output import write_lines
    from streams.settings import load_command

    written = 0

    def tell(partition: int, done: Encoded | None) -> None:
        nonlocal written
        where = f"partition {partition}: " if kind == "kafka" else ""
        if done is not None:
            written += 1
        if json:
            write_lines([] if done is None else [done.value])
        elif done is not None:
            say(where + _told(done, settings.skew_ms))
        elif where:
            say(f"{where}not ahead, nothing was written")

    with explained():
        settings = load_command(url=url)
        kind, _ = settings.ledger
        if kind == "http":
            fail(Exit.USAGE, "name the ledger itself: sqlite:///FILE or kafka://HOST:PORT")
        _reset(settings, reason, tell)
    if not written:
        fail(Exit.FAILED, "the log is not ahead of this machine's clock: nothing was written")


def _reset(settings: Settings, reason: str, tell: Tell) -> None:
    from streams.client.connect import check_there
    from streams.clock import SystemClock
    from streams.embedded.file_ownership import stopped_ledger
    from streams.kafka.deployment import deployment_of
    from streams.processing.clock_reset import reset

    kind, target = settings.ledger
    clock = SystemClock()
    if kind == "kafka":
        asyncio.run(_reset_partitions(deployment_of(settings), clock, reason, tell))
        return
    check_there(Path(target))
    with stopped_ledger(Path(target), settings, clock.now()) as (journal, genesis):
        tell(0, asyncio.run(reset(journal, genesis, clock, reason)))


async def _reset_partitions(deployment: Deployment, clock: Clock, reason: str, tell: Tell) -> None:
    from streams.kafka.journal import KafkaJournal
    from streams.kafka.lost_inputs import NoInputs
    from streams.kafka.restore import check_no_workers
    from streams.processing.clock_reset import reset

    # A worker that waits for the right time owns its partition again every few seconds.
    await check_no_workers(deployment)
    for partition in range(deployment.partitions):
        journal = KafkaJournal(
            deployment.cluster, deployment.application, deployment.topics, partition, NoInputs()
        )
        tell(partition, await reset(journal, deployment.genesis(partition), clock, reason))


def _told(done: Encoded, skew_ms: int) -> str:
    """Say what was written, and from when on requests are decided."""
    from accountant.times import iso

    return (
        f"decision {done.partition_sequence}: the clock of the log is {iso(done.decided_at)}\n"
        f"requests with new ids are decided from {iso(done.decided_at + skew_ms)} on; "
        "start the ledger again"
    )
