"""Signed checkpoints of the partitions that a worker serves, in a directory."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
from prometheus_client.registry import Collector

from accountant.errors import LogDamaged
from accountant.partition import Partition, hash_of
from streams.clock import SystemClock, steady
from streams.errors import Unavailable
from streams.evidence.heads import Heads
from streams.evidence.names import check_name
from streams.evidence.sink_choice import senders_to
from streams.evidence.store import Kept, folder_of, key_of
from streams.evidence.troubles import CheckpointTroubles
from streams.kafka.blocking_reader import BlockingLogReader
from streams.kafka.deployment import Deployment
from streams.kafka.topic_sink import topic_sink
from streams.processing.observers import Committed
from streams.settings import Settings

_CLOSE_S: Final = 5.0


class PartitionHeads:
    """An observer that keeps the checkpoints of each partition, by a thread for each.

    Unlike other observers it raises: a partition that has lost decisions is refolded, looked at
    again, and halted.
    """

    def __init__(self, deployment: Deployment, settings: Settings, directory: Path) -> None:
        self._deployment = deployment
        self._settings = settings
        self._directory = directory
        self._heads: dict[int, Heads] = {}
        self._ending: list[Heads] = []
        self.senders = (
            None
            if settings.checkpoint_places is None
            else senders_to(settings, topic_sink, kept=True)
        )

    @property
    def notes(self) -> list[str]:
        """What a person should know, for `/readyz`."""
        each = sorted(self._heads.items())
        notes = [f"partition {number}: {note}" for number, heads in each for note in heads.notes]
        return notes if self.senders is None else notes + self.senders.notes

    @property
    def collectors(self) -> list[Collector]:
        """What tells a scrape how late other places are, and what is wrong with this one."""
        troubles = CheckpointTroubles(lambda: [*self._heads.values()])
        return [troubles] if self.senders is None else [troubles, self.senders]

    @property
    def refused(self) -> list[str]:
        """Why partitions can decide nothing any more."""
        each = sorted(self._heads.items())
        return [f"partition {number}: {heads.refused}" for number, heads in each if heads.refused]

    def refolded(self, partition: Partition, seconds: float) -> None:
        """Raises: Refused: the log is another ledger's, has lost decisions, or must be compared."""
        number, ledger = partition.genesis.partition, partition.genesis.ledger
        if ledger is not msgspec.UNSET:
            # Also of a log that was just begun: `topics create` makes one where all was lost.
            check_name(self._directory, self._deployment.topics.decisions, ledger)
        heads = self._heads.get(number)
        if heads is None:
            heads = self._heads[number] = self._made(partition)
        heads.begin(partition)

    def _made(self, partition: Partition) -> Heads:
        genesis = partition.genesis

        def open_kept() -> Kept:
            if genesis.ledger is msgspec.UNSET:
                raise Unavailable("a ledger of 0.1.0 has no id: no checkpoints are kept of it")
            return kept_of(self._directory, self._settings, genesis.ledger, genesis.partition)

        return Heads(
            open_kept,
            lambda sequence: digest_at(self._deployment, genesis.partition, sequence),
            SystemClock(),
            seconds=self._settings.checkpoint_seconds,
            required=self._settings.checkpoints_required,
            at_once=False,
            send=None if self.senders is None else self.senders.take,
        )

    def committed(self, committed: Committed) -> None:
        """Raises: Refused: as `refolded`, where the checkpoints were out of reach then."""
        heads = self._heads.get(committed.partition.genesis.partition)
        if heads is not None:
            heads.wake(committed.partition)

    def dropped(self, partition: int, error: BaseException | None) -> None:
        """End the thread of a partition that another worker has from now on."""
        if error is None:
            self._end(partition)

    def halted(self, partition: int, error: BaseException) -> None:
        self._end(partition)

    def _end(self, partition: int) -> None:
        heads = self._heads.pop(partition, None)
        if heads is not None:
            heads.end()
            self._ending = [each for each in (*self._ending, heads) if each.is_running]

    def close(self) -> None:
        """Keep and send the last heads, for a few seconds in all; after every partition's end."""
        until = steady() + _CLOSE_S
        for heads in self._ending:
            heads.close(until - steady())
        if self.senders is not None:
            self.senders.close()


def partition_heads(deployment: Deployment, settings: Settings) -> PartitionHeads | None:
    """Return what keeps a worker's checkpoints, None where no setting says where.

    Raises: Refused: they are to be sent to places that cannot be used, or none are kept.
    """
    if settings.checkpoints is None or settings.checkpoints == "off":
        if settings.checkpoint_places is not None:
            senders_to(settings, topic_sink, kept=False)
        return None
    return PartitionHeads(deployment, settings, settings.checkpoints.absolute())


def kept_of(directory: Path, settings: Settings, ledger: str, partition: int) -> Kept:
    """Return where the checkpoints of a partition are kept.

    Raises: Unavailable, Refused: the place or the key cannot be used.
    """
    key = key_of(directory, settings.checkpoint_key)
    return Kept(folder_of(directory, ledger), partition, ledger, key)


def digest_at(deployment: Deployment, partition: int, sequence: int) -> str:
    """Return the hash of a decision on Kafka, an empty text where the log has none.

    In a thread without an event loop; over a connection of its own.

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
