"""Who used what of a ledger on Kafka, from an index kept behind its decisions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from accountant.partition.key_hash import partition_of
from accountant.views.usage import By, UsageRow
from accountant.views.why import UsageSums
from streams.errors import Unavailable
from streams.index import IndexState, UsageReader
from streams.kafka.blocking_reader import LogLookup, LogsHere
from streams.kafka.deployment import Deployment
from streams.logs import get_logger

T = TypeVar("T")

_log = get_logger(__name__)
_SLICE: Final = 1_000  # decisions of one transaction, a megabyte or so
_THREADS: Final = 8  # of readers: those of the event loop's own pool answer others
_WAIT_S: Final = 5.0
_END_S: Final = 1.0
_MOST_NAMED: Final = 10  # partitions, in a note


class KafkaUsage:
    """The index of a ledger on Kafka. Its thread begins at `start`, or when somebody reads.

    Args:
        path: where it is kept; None for a temporary one, made anew from decision 0.

    Attributes:
        log: reads single decisions, with or without the index.
    """

    def __init__(self, deployment: Deployment, path: Path | None) -> None:
        self._partitions = deployment.partitions
        self._path = path
        self._logs = LogsHere(deployment)
        self._reader = UsageReader(
            self._logs.open, path, partitions=deployment.partitions, shared_log=True, most=_SLICE
        )
        self._last: dict[int, int] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="usage")
        self._waiting = 0
        self.log = LogLookup(deployment)
        self._started = self._closed = False

    def start(self) -> None:
        """Begin to take in the log, in a thread of its own."""
        if not self._started:
            self._started = True
            kept = (
                "in a temporary file: ACCOUNTANT_INDEX is not set, each start reads the whole log"
            )
            _log.info("usage_index", kept=kept if self._path is None else str(self._path))
            self._reader.start()

    def seen(self, partition: int, sequence: int) -> None:
        """Note the last decision of a partition that this process shows."""
        self._last[partition] = sequence
        if self._started:
            self._reader.wake(partition)

    async def rows(self, dataset: str, by: By) -> list[UsageRow]:
        """Return who used a dataset, of every decision that this process shows.

        Raises: Unavailable: the index is behind, or cannot be read.
        """
        partition = partition_of(dataset.encode(), self._partitions)
        upto = self._last.get(partition, -1)
        return await self._read(
            lambda wait: self._reader.rows(dataset, by, upto, partition=partition, wait=wait)
        )

    async def sums(self, dataset: str, *, since_day: str) -> UsageSums | None:
        """Return all that `why` is made of; as `rows`.

        Raises: Unavailable: the index is behind, or cannot be read.
        """
        partition = partition_of(dataset.encode(), self._partitions)
        upto = self._last.get(partition, -1)
        return await self._read(
            lambda wait: self._reader.sums(
                dataset, upto, since_day=since_day, partition=partition, wait=wait
            )
        )

    async def decisions(self, dataset: str, *, after: int, limit: int) -> list[bytes]:
        """Return a dataset's decisions in their order, after a number in it, so many at most.

        Raises: Unavailable: the index is behind, or it or the log cannot be read. LogDamaged.
        """
        partition = partition_of(dataset.encode(), self._partitions)
        upto = self._last.get(partition, -1)
        places = await self._read(
            lambda wait: self._reader.places(
                dataset, upto, after=after, most=limit, partition=partition, wait=wait
            )
        )
        return await self.log.decisions(partition, [place for _, place in places])

    async def _read(self, take: Callable[[float], T]) -> T:
        if self._closed:
            raise Unavailable("closing: ask again")
        self.start()
        # Those who find all threads taken are told at once whether there is an answer.
        wait = _WAIT_S if self._waiting < _THREADS else 0.0
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, take, wait)
        finally:
            self._waiting -= 1

    def first_analysts(self, most: int) -> tuple[list[UsageRow], int] | None:
        """Return the first pairs of dataset and analyst, and how many requests others made.

        None while the index is behind.
        """
        return self._reader.first_analysts(most, self._last.copy())

    def state(self) -> IndexState:
        """Tell how far the index is behind, after giving it a moment.

        Of a partition whose end it has not reached since the start, offsets are counted.
        """
        state = self._reader.state(self._last.copy())
        left = self._logs.left
        unread = sum(left.get(number, 1) for number in self._reader.unread())
        return IndexState(max(state.behind, unread), state.trouble)

    def notes(self) -> list[str]:
        """Return what keeps usage from being answered, in words."""
        found = [] if self._reader.trouble is None else [self._reader.trouble]
        if self._started and (unread := self._reader.unread()):
            left = self._logs.left
            each = ", ".join(_behind(number, left.get(number)) for number in unread[:_MOST_NAMED])
            more = "" if len(unread) <= _MOST_NAMED else f" and {len(unread) - _MOST_NAMED} more"
            found.append(f"the index of usage is being built: {each}{more}")
        return found

    async def close(self) -> None:
        """Let go of the index; the next process goes on from there."""
        self._closed = True
        await asyncio.to_thread(self._reader.close, _END_S)
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.log.close()


def _behind(partition: int, left: int | None) -> str:
    return f"partition {partition}" + ("" if left is None else f" ({left} offsets behind)")
