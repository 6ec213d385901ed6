"""Read older decisions of a ledger on Kafka in a thread that may block."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from streams.errors import Unavailable
from streams.index import Beginning
from streams.kafka.deployment import Deployment
from streams.kafka.log.decision_reader import KafkaDecisionReader

T = TypeVar("T")

_MAX_LOOKUPS: Final = 100
_CLOSE_S: Final = 1.0


class ThreadedLogReader:
    """Reads decisions for an event loop, in a thread of its own, one call after another."""

    def __init__(self, deployment: Deployment) -> None:
        self._reader = BlockingLogReader(deployment)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="decisions")
        self._lookups = 0

    async def decisions(self, partition: int, sequences: Sequence[int]) -> list[bytes]:
        """Return single decisions; see `DecisionReader.decisions`."""
        return await self._run(lambda: self._reader.decisions(partition, sequences))

    async def read(self, partition: int, first: int, limit: int) -> list[bytes]:
        """Return decisions from number `first` on; see `DecisionReader.read`."""
        return await self._run(lambda: self._reader.read(partition, first, limit))

    async def last(self, partition: int) -> tuple[int, bytes]:
        """Return the last decision, with its number; see `DecisionReader.last`."""
        return await self._run(lambda: self._reader.last(partition))

    async def _run(self, read: Callable[[], T]) -> T:
        if self._lookups >= _MAX_LOOKUPS:
            raise Unavailable(
                f"{_MAX_LOOKUPS} reads of older decisions are waiting already: ask again"
            )
        self._lookups += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, read)
        except RuntimeError as error:  # the executor has been shut down
            raise Unavailable(f"closing: {error}") from error
        finally:
            self._lookups -= 1

    def close(self) -> None:
        """Disconnect, without waiting for reads in progress."""
        try:
            self._thread.submit(self._reader.close)
        finally:
            self._thread.shutdown(wait=False)


class BlockingLogReader:
    """Reads decisions of any partition for a thread without an event loop.

    One thread calls it; any thread may read `offsets_left`. The thread's event loop runs only
    during a read, so nothing happens between two reads.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._reader = KafkaDecisionReader(deployment)
        self._runner: asyncio.Runner | None = None
        self._open = set[int]()

    @property
    def offsets_left(self) -> Mapping[int, int]:
        """By partition: the number of offsets after its last read."""
        return self._reader.offsets_left

    def open(self, partition: int) -> PartitionLog:
        self._open.add(partition)
        return PartitionLog(self, partition)

    def read(self, partition: int, first: int, limit: int) -> list[bytes]:
        """As `DecisionReader.read`."""
        return self._event_loop().run(self._reader.read(partition, first, limit))

    def decisions(self, partition: int, sequences: Iterable[int]) -> list[bytes]:
        """As `DecisionReader.decisions`."""
        return self._event_loop().run(self._reader.decisions(partition, sequences))

    def last(self, partition: int) -> tuple[int, bytes]:
        """As `DecisionReader.last`."""
        return self._event_loop().run(self._reader.last(partition))

    def _event_loop(self) -> asyncio.Runner:
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner

    def release(self, partition: int) -> None:
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

    def __init__(self, logs: BlockingLogReader, partition: int) -> None:
        self._logs = logs
        self._partition = partition

    def read(self, first: int, limit: int) -> Sequence[bytes]:
        """Return decisions from number `first` on, fewer than `limit` only where the log ends.

        Raises: LogDamaged, Unavailable, Refused.
        """
        return self._logs.read(self._partition, first, limit)

    def beginning(self) -> Beginning | None:
        """Return None: a log on Kafka has no archive."""
        return None

    def close(self) -> None:
        """Release the partition."""
        self._logs.release(self._partition)
