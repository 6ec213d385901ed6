"""`accountant accept-rollback`: go on with a log that has lost decisions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.printing.exits import Exit, explained, fail
from streams.cli.printing.say import say
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
    partition: Annotated[
        int | None, typer.Option(help="On Kafka: the partition that has lost them.", min=0)
    ] = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Go on with a stopped ledger's log that has lost decisions which a checkpoint has seen.

    Such as after a backup was put back on purpose. What was granted in the lost decisions ran, and
    is not charged. Writes one decision, `rolled_back`, signed by the key of the checkpoints;
    `audit` and metrics tell of it for ever.
    """
    from streams.cli.printing.output import write_lines
    from streams.settings import load_command

    with explained():
        settings = load_command(url=url)
        kind = settings.ledger.kind
        if kind == "http":
            fail(Exit.USAGE, "name the ledger itself: sqlite:///FILE or kafka://HOST:PORT")
        if (kind == "kafka") == (partition is None):
            fail(Exit.USAGE, "--partition N goes with a ledger on Kafka, and with no other")
        if partition is None:
            done = _accept_in_file(settings, lost, reason)
        else:
            done = asyncio.run(_accept_on_kafka(settings, partition, lost, reason))
    if done is None:
        fail(Exit.FAILED, "the log goes on from its newest checkpoint: nothing was written")
    if json:
        write_lines([done.value])
        return
    say(
        f"decision {done.partition_sequence}: the decisions {lost} are given up\n"
        "start the ledger again"
    )


def _accept_in_file(settings: Settings, lost: str, reason: str) -> Encoded | None:
    from streams.client.connect import check_there
    from streams.clock import SystemClock
    from streams.embedded.checkpointing import digest_at, kept_of
    from streams.embedded.file_ownership import stopped_ledger
    from streams.evidence.accept import accept

    path, clock = Path(settings.ledger[1]).absolute(), SystemClock()
    check_there(path)
    with stopped_ledger(path, settings, clock.now()) as (journal, genesis):
        made = accept(
            journal,
            genesis,
            clock,
            kept_of(path, settings),
            lambda number: digest_at(path, number),
            lost=lost,
            note=reason,
        )
        return asyncio.run(made)


async def _accept_on_kafka(
    settings: Settings, partition: int, lost: str, reason: str
) -> Encoded | None:
    from streams.clock import SystemClock
    from streams.evidence.accept import accept
    from streams.kafka.deployment import deployment_of
    from streams.kafka.genesis import checkpoints_name
    from streams.kafka.journal import KafkaJournal
    from streams.kafka.lost_inputs import NoInputs
    from streams.kafka.restore import check_no_workers
    from streams.worker.kept_heads import digest_at, kept_of

    directory = settings.checkpoints
    if directory is None or directory == "off":
        fail(Exit.USAGE, "set ACCOUNTANT_CHECKPOINTS to the directory of the workers' checkpoints")
    deployment = deployment_of(settings)
    if partition >= deployment.partitions:
        fail(Exit.USAGE, f"--partition must be at most {deployment.partitions - 1}")
    await check_no_workers(deployment)
    ledger = await checkpoints_name(deployment)
    journal = KafkaJournal(
        deployment.cluster, deployment.application, deployment.topics, partition, NoInputs()
    )
    return await accept(
        journal,
        deployment.genesis(partition),
        SystemClock(),
        kept_of(directory.absolute(), settings, ledger, partition),
        lambda number: digest_at(deployment, partition, number),
        lost=lost,
        note=reason,
    )
