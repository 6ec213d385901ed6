"""Store signed checkpoints of the partitions that a worker serves, in a directory."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
from prometheus_client.registry import Collector

from accountant.errors import LogDamaged
from accountant.partition import Partition, hash_of
from streams.clock import SystemClock, steady
from streams.errors import Unavailable
from streams.evidence.checkpoint_metrics import CheckpointMetrics
from streams.evidence.checkpointer import Checkpointer
from streams.evidence.ledger_binding import check_name
from streams.evidence.sink_choice import checkpoint_senders
from streams.evidence.store import CheckpointStore, folder_of, signing_key_at
from streams.kafka.blocking_reader import BlockingLogReader
from streams.kafka.deployment import Deployment
from streams.kafka.topic_sink import topic_sink
from streams.processing.observers import Committed
from streams.settings import Settings

_CLOSE_S: Final = 5.0


class PartitionCheckpoints:
    """An observer that stores the checkpoints of each partition, with one thread for each.

    Unlike other observers it raises: a partition that has lost decisions is replayed, checked
    again, and halted.
    """

    def __init__(self, deployment: Deployment, settings: Settings, directory: Path) -> None:
        self._deployment = deployment
        self._settings = settings
        self._directory = directory
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
    def collectors(self) -> list[Collector]:
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
        number, ledger = partition.genesis.partition, partition.genesis.ledger
        if ledger is not msgspec.UNSET:
            # Check a new log, too: after a loss of all topics, `topics create` makes a new one.
            check_name(self._directory, self._deployment.topics.decisions, ledger)
        checkpointer = self._checkpointers.get(number)
        if checkpointer is None:
            checkpointer = self._checkpointers[number] = self._made(partition)
        checkpointer.begin(partition)

    def _made(self, partition: Partition) -> Checkpointer:
        genesis = partition.genesis

        def open_store() -> CheckpointStore:
            if genesis.ledger is msgspec.UNSET:
                raise Unavailable("a ledger of 0.1.0 has no id: it cannot have checkpoints")
            return partition_store(
                self._directory, self._settings, genesis.ledger, genesis.partition
            )

        return Checkpointer(
            open_store,
            lambda sequence: digest_at(self._deployment, genesis.partition, sequence),
            SystemClock(),
            seconds=self._settings.checkpoint_seconds,
            required=self._settings.checkpoints_required,
            at_once=False,
            send=None if self.senders is None else self.senders.take,
        )

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
    if settings.checkpoints is None or settings.checkpoints == "off":
        if settings.checkpoint_places is not None:
            checkpoint_senders(settings, topic_sink, stored=False)
        return None
    return PartitionCheckpoints(deployment, settings, settings.checkpoints.absolute())


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
    logs = BlockingLogReader(deployment)
    try:
        (value,) = logs.decisions(partition, [sequence])
    except LogDamaged:
        return ""
    finally:
        logs.close()
    return hash_of(value)
