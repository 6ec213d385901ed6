"""Who used what of a ledger on Kafka, from an index kept behind its decisions."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from accountant.partition.key_hash import partition_of
from streams.index import By, IndexState, UsageReader, UsageRow
from streams.kafka.deployment import Deployment
from streams.kafka.indexed.logs_here import LogsHere
from streams.logs import get_logger

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
        self._started = False

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
        self.start()
        partition = partition_of(dataset.encode(), self._partitions)
        upto = self._last.get(partition, -1)
        # Those who find all threads taken are told at once whether there is an answer.
        wait = _WAIT_S if self._waiting < _THREADS else 0.0
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._threads,
                lambda: self._reader.rows(dataset, by, upto, partition=partition, wait=wait),
            )
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
        await asyncio.to_thread(self._reader.close, _END_S)
        self._threads.shutdown(wait=False, cancel_futures=True)


def _behind(partition: int, left: int | None) -> str:
    return f"partition {partition}" + ("" if left is None else f" ({left} offsets behind)")
