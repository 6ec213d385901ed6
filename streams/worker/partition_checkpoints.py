"""Store signed checkpoints of the partitions that a worker serves, in a directory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec

from accountant.errors import LogDamaged
from accountant.partition import Partition, hash_of
from accountant.records import Genesis
from streams.clock import SystemClock, steady
from streams.errors import Unavailable
from streams.evidence.checkpoint_metrics import CheckpointMetrics
from streams.evidence.checkpointer import Checkpointer
from streams.evidence.ledger_binding import check_name
from streams.evidence.signed_checkpoint import Checkpoint
from streams.evidence.sink_choice import checkpoint_senders
from streams.evidence.store import CheckpointStore, folder_of, signing_key_at
from streams.kafka.deployment import Deployment
from streams.kafka.log.kafka_log import KafkaLog
from streams.kafka.log.topic_sink import topic_sink
from streams.log.single_decisions import decisions_at
from streams.metrics.registry import MetricsCollector
from streams.processing.observers import Committed
from streams.settings import Settings

_CLOSE_S: Final = 5.0


class PartitionCheckpoints:
    """An observer that stores the checkpoints of each partition, with one thread for each.

    Unlike other observers it raises: a partition that has lost decisions is replayed, checked
    again, and halted.
    """

    def __init__(self, deployment: Deployment, settings: Settings) -> None:
        self._deployment = deployment
        self._settings = settings
        self._checkpointers: dict[int, Checkpointer] = {}
        self._closing: list[Checkpointer] = []
        self.senders = (
            None
            if settings.checkpoint_places is None
            else checkpoint_senders(settings, topic_sink, stored=True)
        )

    @property
    def notes(self) -> list[str]:
        """Notes for operators, for `/readyz`."""
        each = sorted(self._checkpointers.items())
        notes = [
            f"partition {number}: {note}"
            for number, checkpointer in each
            for note in checkpointer.notes
        ]
        return notes if self.senders is None else notes + self.senders.notes

    @property
    def collectors(self) -> list[MetricsCollector]:
        """The metrics of the sinks' lag, and of troubles with this store."""
        troubles = CheckpointMetrics(lambda: [*self._checkpointers.values()])
        return [troubles] if self.senders is None else [troubles, self.senders]

    @property
    def refused(self) -> list[str]:
        """Why partitions have stopped deciding."""
        each = sorted(self._checkpointers.items())
        return [
            f"partition {number}: {checkpointer.refused}"
            for number, checkpointer in each
            if checkpointer.refused
        ]

    def replayed(self, partition: Partition, seconds: float) -> None:
        """Raises: Refused: the log is another ledger's, has lost decisions, or must be compared."""
        genesis = partition.genesis
        check_topic(self._deployment, self._settings, genesis)
        checkpointer = self._checkpointers.get(genesis.partition)
        if checkpointer is None:
            send = None if self.senders is None else self.senders.take
            checkpointer = partition_checkpointer(
                self._deployment, self._settings, genesis, at_once=False, send=send
            )
            if checkpointer is None:
                return
            self._checkpointers[genesis.partition] = checkpointer
        checkpointer.begin(partition)

    def committed(self, committed: Committed) -> None:
        """Raises: Refused: as `replayed`, if the checkpoints could not be read then."""
        checkpointer = self._checkpointers.get(committed.partition.genesis.partition)
        if checkpointer is not None:
            checkpointer.wake(committed.partition)

    def dropped(self, partition: int, error: BaseException | None) -> None:
        """Stop the thread of a partition that moves to another worker."""
        if error is None:
            self._end(partition)

    def halted(self, partition: int, error: BaseException) -> None:
        self._end(partition)

    def _end(self, partition: int) -> None:
        checkpointer = self._checkpointers.pop(partition, None)
        if checkpointer is not None:
            checkpointer.end()
            self._closing = [each for each in (*self._closing, checkpointer) if each.is_running]

    def close(self) -> None:
        """Store and send the last checkpoints, within a few seconds; call it last."""
        until = steady() + _CLOSE_S
        for checkpointer in self._closing:
            checkpointer.close(until - steady())
        if self.senders is not None:
            self.senders.close()


def partition_checkpoints(
    deployment: Deployment, settings: Settings
) -> PartitionCheckpoints | None:
    """Return the observer of a worker's checkpoints; None if no setting names a directory.

    Raises: Refused: a sink cannot be used, or sinks are set without a directory.
    """
    if checkpoint_directory(settings) is None:
        if settings.checkpoint_places is not None:
            checkpoint_senders(settings, topic_sink, stored=False)
        return None
    return PartitionCheckpoints(deployment, settings)


def checkpoint_directory(settings: Settings) -> Path | None:
    """Return the directory of checkpoints, None if no setting names one."""
    named = settings.checkpoints
    return None if named is None or named == "off" else named.absolute()


def check_topic(deployment: Deployment, settings: Settings, genesis: Genesis) -> None:
    """Check that a topic has the log of the ledger that had its name before.

    A new log is checked, too: after a loss of all topics, `topics create` makes a new one.

    Raises: Refused: the log is another ledger's.
    """
    directory = checkpoint_directory(settings)
    if directory is not None and genesis.ledger is not msgspec.UNSET:
        check_name(directory, deployment.topics.decisions, genesis.ledger)


def partition_checkpointer(
    deployment: Deployment,
    settings: Settings,
    genesis: Genesis,
    *,
    at_once: bool,
    send: Callable[[Checkpoint, bytes], None] | None = None,
) -> Checkpointer | None:
    """Return what compares and signs a partition's checkpoints; None if no setting names a place.

    Args:
        at_once, send: as of `Checkpointer`.
    """
    directory = checkpoint_directory(settings)
    if directory is None:
        return None

    def open_store() -> CheckpointStore:
        if genesis.ledger is msgspec.UNSET:
            raise Unavailable("a ledger of 0.1.0 has no id: it cannot have checkpoints")
        return partition_store(directory, settings, genesis.ledger, genesis.partition)

    return Checkpointer(
        open_store,
        lambda sequence: digest_at(deployment, genesis.partition, sequence),
        SystemClock(),
        seconds=settings.checkpoint_seconds,
        required=settings.checkpoints_required,
        at_once=at_once,
        send=send,
    )


def partition_store(
    directory: Path, settings: Settings, ledger: str, partition: int
) -> CheckpointStore:
    """Return the store of a partition's checkpoints.

    Raises: Unavailable, Refused: the directory or the key cannot be used.
    """
    key = signing_key_at(directory, settings.checkpoint_key)
    return CheckpointStore(folder_of(directory, ledger), partition, ledger, key)


def digest_at(deployment: Deployment, partition: int, sequence: int) -> str:
    """Return the hash of a decision on Kafka; an empty text if the log has none.

    Call it in a thread without an event loop; it uses a connection of its own.

    Raises: Unavailable, Refused.
    """
    with closing(KafkaLog(deployment)) as log:
        try:
            (value,) = decisions_at(log, partition, [sequence])
        except LogDamaged:
            return ""
    return hash_of(value)
