"""The logs of all partitions for one thread that may wait for them, over one connection."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from streams.index import Beginning
from streams.kafka.deployment import Deployment
from streams.kafka.indexed.decisions import DecisionReader

_CLOSE_S: Final = 1.0


class LogsHere:
    """Reads decisions of any partition. One thread calls it; any may ask what is left.

    The thread's event loop runs only while it reads, so nothing is done between two reads.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._reader = DecisionReader(deployment)
        self._runner: asyncio.Runner | None = None
        self._open = set[int]()

    @property
    def left(self) -> Mapping[int, int]:
        """How many offsets there were after the last read of each partition."""
        return self._reader.left

    def open(self, partition: int) -> PartitionLog:
        """Return the log of one partition."""
        self._open.add(partition)
        return PartitionLog(self, partition)

    def read(self, partition: int, first: int, most: int) -> list[bytes]:
        """Do as `DecisionReader.read` does."""
        return self._here().run(self._reader.read(partition, first, most))

    def decisions(self, partition: int, sequences: Iterable[int]) -> list[bytes]:
        """Do as `DecisionReader.decisions` does."""
        return self._here().run(self._reader.decisions(partition, sequences))

    def last(self, partition: int) -> tuple[int, bytes]:
        """Do as `DecisionReader.last` does."""
        return self._here().run(self._reader.last(partition))

    def _here(self) -> asyncio.Runner:
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner

    def let_go(self, partition: int) -> None:
        """Forget a partition; disconnect after the last one."""
        self._reader.forget(partition)
        self._open.discard(partition)
        if not self._open:
            self.close()

    def close(self) -> None:
        """Disconnect; another read connects again."""
        runner, self._runner = self._runner, None
        if runner is not None:
            with runner:
                runner.run(self._disconnect())

    async def _disconnect(self) -> None:
        self._reader.close()
        closing = asyncio.all_tasks() - {asyncio.current_task()}
        if closing:
            await asyncio.wait(closing, timeout=_CLOSE_S)


class PartitionLog:
    """The log of one partition, for an index."""

    def __init__(self, logs: LogsHere, partition: int) -> None:
        self._logs = logs
        self._partition = partition

    def read(self, first: int, most: int) -> Sequence[bytes]:
        """Return decisions from number `first` on, fewer than `most` only where the log ends.

        Raises: LogDamaged, Unavailable, Refused.
        """
        return self._logs.read(self._partition, first, most)

    def beginning(self) -> Beginning | None:
        """Return None: nothing of a log on Kafka is archived."""
        return None

    def close(self) -> None:
        """Let go of it."""
        self._logs.let_go(self._partition)
