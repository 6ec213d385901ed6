"""Older decisions of a ledger on Kafka, read in a thread that may block."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from streams.errors import Unavailable
from streams.index import Beginning
from streams.kafka.deployment import Deployment
from streams.kafka.indexed_decisions import KafkaDecisionReader

T = TypeVar("T")

_MOST_LOOKING: Final = 100
_CLOSE_S: Final = 1.0


class LogLookup:
    """Reads decisions in a thread of its own, one call after another."""

    def __init__(self, deployment: Deployment) -> None:
        self._logs = LogsHere(deployment)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="decisions")
        self._looking = 0

    async def decisions(self, partition: int, sequences: Sequence[int]) -> list[bytes]:
        """Return single decisions; see `DecisionReader.decisions`."""
        return await self._look(lambda: self._logs.decisions(partition, sequences))

    async def read(self, partition: int, first: int, most: int) -> list[bytes]:
        """Return decisions from number `first` on; see `DecisionReader.read`."""
        return await self._look(lambda: self._logs.read(partition, first, most))

    async def last(self, partition: int) -> tuple[int, bytes]:
        """Return the last decision, with its number; see `DecisionReader.last`."""
        return await self._look(lambda: self._logs.last(partition))

    async def _look(self, look: Callable[[], T]) -> T:
        if self._looking >= _MOST_LOOKING:
            raise Unavailable(f"{_MOST_LOOKING} look for older decisions already: ask again")
        self._looking += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, look)
        except RuntimeError as error:  # the thread takes nothing any more
            raise Unavailable(f"closing: {error}") from error
        finally:
            self._looking -= 1

    def close(self) -> None:
        """Let go of the log, without waiting for those who look."""
        try:
            self._thread.submit(self._logs.close)
        finally:
            self._thread.shutdown(wait=False)


class LogsHere:
    """Reads decisions of any partition. One thread calls it; any may ask what is left.

    The thread's event loop runs only while it reads, so nothing is done between two reads.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._reader = KafkaDecisionReader(deployment)
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
