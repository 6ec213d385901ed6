"""Lets a command own a stopped ledger, to write an operator's record into its log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import fail
from streams.cli.printing.say import say

if TYPE_CHECKING:
    from accountant.partition import Partition
    from accountant.records import Genesis
    from accountant.records.encoded_decision import EncodedDecision
    from streams.clock import Clock
    from streams.evidence.checkpointer import Checkpointer
    from streams.kafka.deployment import Deployment
    from streams.processing.journal import Journal
    from streams.settings import Settings


class StoppedLog(NamedTuple):
    """The log of one partition of a stopped ledger.

    Attributes:
        journal: not owned yet.
        place: the ledger's file, absolute, or its deployment on Kafka.
    """

    partition: int
    journal: Journal
    genesis: Genesis
    clock: Clock
    place: Path | Deployment
    settings: Settings

    async def compare(self, partition: Partition) -> None:
        """Call `compare_log`."""
        await compare_log(self.place, self.settings, self.clock, partition)

    async def own_and_compare(self) -> None:
        """Own the log and compare it, for a command that writes beside the log alone."""
        from streams.processing.recovery import recover_partition

        try:
            await self.journal.own()
            await self.compare(await recover_partition(self.journal, self.genesis, asyncio.sleep))
        finally:
            await self.journal.drop()

    async def check_name(self, partition: Partition) -> None:
        """Check that the log is the ledger's that had this name before.

        Raises: Refused: it is another ledger's.
        """
        _check_name(self.place, self.settings, partition)

    async def ledger_id(self) -> str:
        """Return the ledger's id, as in its checkpoints."""
        if isinstance(self.place, Path):
            from streams.embedded.checkpointing import ledger_id

            return ledger_id(self.place)
        from streams.kafka.log.genesis import checkpoints_name

        return await checkpoints_name(self.place)


async def compare_log(
    place: Path | Deployment, settings: Settings, clock: Clock, partition: Partition
) -> None:
    """Compare a log with its checkpoints, as a start does; whoever writes to it must.

    Args:
        place: the ledger's file, absolute, or its deployment on Kafka.
        partition: the state of the log.
    Raises: Refused: a start would refuse the log.
    """
    _check_name(place, settings, partition)
    checkpointer = _checkpointer(place, settings, clock, partition)
    if checkpointer is None:
        return
    # In a thread: the hash of an older decision may need an event loop of its own.
    await asyncio.to_thread(checkpointer.compare, partition)
    for note in checkpointer.notes:
        say(f"warning: {note}", err=True)


def _check_name(place: Path | Deployment, settings: Settings, partition: Partition) -> None:
    if isinstance(place, Path):
        from streams.embedded.checkpointing import check_ledger

        check_ledger(place, settings)
    else:
        from streams.worker.partition_checkpoints import check_topic

        check_topic(place, settings, partition.genesis)


def _checkpointer(
    place: Path | Deployment, settings: Settings, clock: Clock, partition: Partition
) -> Checkpointer | None:
    if isinstance(place, Path):
        from streams.embedded.checkpointing import own_heads
        from streams.tasks.background import THREADS

        return own_heads(place, settings, clock, None, THREADS)
    from streams.worker.partition_checkpoints import partition_checkpointer

    return partition_checkpointer(place, settings, partition.genesis, at_once=True)


def stopped_settings(url: str) -> Settings:
    """Return the settings of the ledger at an address; end the command for a server's."""
    from streams.settings import load_command

    settings = load_command(url=url)
    if settings.ledger.kind == "http":
        hint = "use --url sqlite:///FILE or --url kafka://HOST:PORT"
        fail(Exit.USAGE, "this command does not work over HTTP", hint=hint)
    return settings


def write_records(
    settings: Settings,
    write: Callable[[StoppedLog], Awaitable[EncodedDecision | None]],
    report: Callable[[int, EncodedDecision | None], None] | None = None,
    *,
    only: int | None = None,
    clock: Clock | None = None,
) -> list[EncodedDecision]:
    """Write an operator's record into each partition of a stopped ledger, and return them.

    Args:
        write: writes one record; returns None if there is nothing to write.
        report: called with each partition and its decision.
        only: on Kafka, the only partition to write into.
        clock: dates the records; default the machine's.
    Raises: NoSuchLedger, Refused: a process runs the ledger, or it is none. ClockOutOfRange: on
        Kafka, the clock is ahead of the broker's.
    """
    from streams.client.connection.connect import check_exists
    from streams.clock import SystemClock
    from streams.embedded.file_ownership import stopped_ledger

    clock = clock or SystemClock()
    done: list[EncodedDecision] = []

    async def write_into(log: StoppedLog) -> None:
        written = await write(log)
        if written is not None:
            done.append(written)
        if report is not None:
            report(log.partition, written)

    if settings.ledger.kind == "kafka":
        asyncio.run(_each_partition(settings, clock, write_into, only))
        return done
    path = Path(settings.ledger.target)
    check_exists(path)
    with stopped_ledger(path.absolute(), settings, clock.now()) as (journal, genesis):
        log = StoppedLog(0, journal, genesis, clock, path.absolute(), settings)
        asyncio.run(write_into(log))
    return done


async def _each_partition(
    settings: Settings,
    clock: Clock,
    write_into: Callable[[StoppedLog], Awaitable[None]],
    only: int | None,
) -> None:
    from streams.kafka.deployment import deployment_of
    from streams.kafka.log.broker_clock import compare_clock
    from streams.kafka.log.journal import KafkaJournal
    from streams.kafka.operate.lost_inputs import NoInputs
    from streams.kafka.operate.restore import check_no_workers

    deployment = deployment_of(settings)
    if only is not None and only >= deployment.partitions:
        fail(Exit.USAGE, f"--partition must be at most {deployment.partitions - 1}")
    # A worker with a wrong clock takes its partition again every few seconds.
    await check_no_workers(deployment)
    # The record is dated by this machine's clock. One that is ahead would freeze the log.
    await compare_clock(deployment, clock, "command")
    for partition in range(deployment.partitions) if only is None else [only]:
        journal = KafkaJournal(
            deployment.cluster, deployment.application, deployment.topics, partition, NoInputs()
        )
        genesis = deployment.genesis(partition)
        await write_into(StoppedLog(partition, journal, genesis, clock, deployment, settings))
