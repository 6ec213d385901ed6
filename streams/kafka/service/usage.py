"""Usage of a ledger on Kafka, from an index that follows its decisions asynchronously."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from accountant.records.parts import value_about
from accountant.views.usage import By, UsageRow
from accountant.views.why import UsageSums
from streams.errors import Unavailable
from streams.index import IndexState, UsageReader
from streams.kafka.deployment import Deployment
from streams.kafka.log.kafka_log import KafkaLog
from streams.log.appended import Appending
from streams.log.async_log import AsyncLog, refuse_to_follow
from streams.telemetry.logs import get_logger

T = TypeVar("T")

_log = get_logger(__name__)
_SLICE: Final = 1_000  # decisions of one transaction, a megabyte or so
_THREADS: Final = 8  # own threads, so that slow reads do not use up the event loop's pool
_WAIT_S: Final = 5.0
_END_S: Final = 1.0
_MAX_NAMED: Final = 10  # partitions, in a note


class KafkaUsage:
    """The usage index of a ledger on Kafka. Its thread starts at `start`, or at the first read.

    Args:
        path: its file; None for a temporary one, rebuilt from decision 0.
        appended: subscribes to decisions as the ledger shows them.

    Attributes:
        log: reads decisions, with or without the index.
    """

    def __init__(
        self,
        deployment: Deployment,
        path: Path | None,
        appended: Callable[[], Appending] = refuse_to_follow,
    ) -> None:
        self._deployment = deployment
        self._path = path
        self._indexed = KafkaLog(deployment)
        self._reader = UsageReader(
            self._indexed, path, partitions=deployment.partitions, shared_log=True, limit=_SLICE
        )
        self._last: dict[int, int] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="usage")
        self._waiting = 0
        self.log = AsyncLog(KafkaLog(deployment), appended)
        self._started = self._closed = False

    def start(self) -> None:
        """Start to index the log, in a thread of its own."""
        if not self._started:
            self._started = True
            temporary = (
                "in a temporary file: ACCOUNTANT_INDEX is not set, each start reads the whole log"
            )
            _log.info("usage_index", stored=temporary if self._path is None else str(self._path))
            self._reader.start()

    def note_decision(self, partition: int, sequence: int) -> None:
        """Record the last decision of a partition that this process shows."""
        self._last[partition] = sequence
        if self._started:
            self._reader.wake(partition)

    async def rows(self, dataset: str, by: By) -> list[UsageRow]:
        """Return the usage of a dataset, over every decision that this process shows.

        Raises: Unavailable: the index lags, or cannot be read.
        """
        partition = self._deployment.partition_of(dataset)
        until_sequence = self._last.get(partition, -1)
        return await self._read(
            lambda wait: self._reader.rows(
                dataset, by, until_sequence, partition=partition, wait=wait
            )
        )

    async def sums(self, dataset: str, *, since_day: str) -> UsageSums | None:
        """Return the sums that `why` needs; as `rows`.

        Raises: Unavailable: the index lags, or cannot be read.
        """
        partition = self._deployment.partition_of(dataset)
        until_sequence = self._last.get(partition, -1)
        return await self._read(
            lambda wait: self._reader.sums(
                dataset, until_sequence, since_day=since_day, partition=partition, wait=wait
            )
        )

    async def decisions(self, dataset: str, *, after: int, limit: int) -> list[bytes]:
        """Return at most `limit` of a dataset's decisions in order, after a number in the dataset.

        Raises: Unavailable: the index lags, or it or the log cannot be read. LogDamaged.
        """
        partition = self._deployment.partition_of(dataset)
        until_sequence = self._last.get(partition, -1)
        places = await self._read(
            lambda wait: self._reader.places(
                dataset, until_sequence, after=after, limit=limit, partition=partition, wait=wait
            )
        )
        found = await self.log.decisions(partition, [place for _, place in places])
        return [value_about(value, dataset) for value in found]

    async def _read(self, take: Callable[[float], T]) -> T:
        if self._closed:
            raise Unavailable("closing: ask again")
        self.start()
        # If all threads are busy, do not queue: answer at once or raise.
        wait = _WAIT_S if self._waiting < _THREADS else 0.0
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, take, wait)
        finally:
            self._waiting -= 1

    def first_analysts(self, limit: int) -> tuple[list[UsageRow], int] | None:
        """Return the first pairs of dataset and analyst, and the number of others' requests.

        None while the index lags.
        """
        return self._reader.first_analysts(limit, self._last.copy())

    def state(self) -> IndexState:
        """Return how far the index lags, after a moment to catch up.

        For a partition whose end it has not reached since the start, this counts offsets.
        """
        state = self._reader.state(self._last.copy())
        offsets_left = self._indexed.offsets_left
        unread = sum(offsets_left.get(number, 1) for number in self._reader.unread())
        return IndexState(max(state.behind, unread), state.trouble)

    def notes(self) -> list[str]:
        """Return the reasons, in words, why questions about usage get no answer."""
        found = [] if self._reader.trouble is None else [self._reader.trouble]
        if self._started and (unread := self._reader.unread()):
            offsets_left = self._indexed.offsets_left
            each = ", ".join(
                _build_progress(number, offsets_left.get(number)) for number in unread[:_MAX_NAMED]
            )
            more = "" if len(unread) <= _MAX_NAMED else f" and {len(unread) - _MAX_NAMED} more"
            found.append(f"the index of usage is being built: {each}{more}")
        return found

    async def close(self) -> None:
        """Close the index; the next process continues from its last decision."""
        self._closed = True
        await asyncio.to_thread(self._reader.close, _END_S)
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.log.close()


def _build_progress(partition: int, offsets_left: int | None) -> str:
    return f"partition {partition}" + (
        "" if offsets_left is None else f" ({offsets_left} offsets behind)"
    )
