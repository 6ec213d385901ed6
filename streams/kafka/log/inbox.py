"""Prefetch the inputs of several partitions, so that no partition waits for another."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka import errors as kafka

from streams.clock import steady
from streams.error_words import words_of
from streams.kafka.log.queues import Queue, Queues
from streams.kafka.wire.fetch import UNREADABLE, FetchedRecord, fetch, getmany
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)

_MAX_RECORDS: Final = 500  # records unpacked before other tasks get a turn
_WAIT_MS: Final = 20  # also the longest delay before reading for a queue with room again
_RETRY_S: Final = 0.1
_SINGLY_S: Final = 60.0  # partitions are read one by one, after an error of one
_MAX_TROUBLES: Final = 20  # errors of no partition, within _TROUBLE_S: replace the client
_TROUBLE_S: Final = 10.0
_LOCATE_S: Final = 2.0
_NOWHERE: Final = TopicPartition("", 0)


def _partitions_of(error: Exception) -> set[TopicPartition] | None:
    """Return the partitions that an error names, None if it names none."""
    named = error.args[0] if error.args else None
    if isinstance(error, kafka.OffsetOutOfRangeError) and isinstance(named, dict):
        return set(named)
    return None


class Inbox:
    """Prefetches records from a consumer as soon as they arrive, up to a bound.

    The client sends a broker no further fetch while it holds records of any partition there.
    Without the inbox, a processor that is committing would hold up all the others.

    The inbox bypasses the client's parser where that raises or finds an offset that does not
    follow the last one, and for the first records after a `seek`.

    Args:
        consumer: started; each of its partitions is paused until `seek` and `resume`.
    """

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._queues = Queues()
        self._raw: dict[TopicPartition, asyncio.Task[None]] = {}
        self._singly_until = 0.0
        self._troubles: deque[float] = deque(maxlen=_MAX_TROUBLES)

    async def run(self) -> None:
        """Read ahead until cancelled. A partition's errors go to its processor.

        Raises: KafkaError: the client has failed for good and must be replaced.
        """
        try:
            await self._run()
        finally:
            for task in self._raw.values():
                task.cancel()

    async def _run(self) -> None:
        while True:
            try:
                await self._read_ahead()
            except UNREADABLE as error:
                # The client has also lost fetched records of other partitions, and names no
                # partition: bypass its parser for all, then read each alone.
                self._singly_until = steady() + _SINGLY_S
                for queue in self._queues.of.values():
                    queue.aligned = False
                _log.warning("inputs_read_raw", error=type(error).__name__, why=words_of(error))
            except Exception as error:
                of = _partitions_of(error)
                if of is None:
                    # The client has also lost fetched records of other partitions. The error
                    # makes all of them seek again; the next error names only the faulty one.
                    self._singly_until = steady() + _SINGLY_S
                    of = set(self._queues.of)
                self._queues.fail(of, error)
                _log.warning("inputs_not_read", error=type(error).__name__, why=words_of(error))
                self._record_trouble(error)
                await asyncio.sleep(_RETRY_S)

    def _record_trouble(self, error: Exception) -> None:
        """Raise if the client fails again and again, so that the worker replaces it.

        After an unexpected answer to a heartbeat, the client's group coordination has ended for
        good and every read raises. Without this check, an evicted member would keep reading.
        """
        if isinstance(error, kafka.OffsetOutOfRangeError):
            return
        self._troubles.append(steady())
        since = self._troubles[-1] - self._troubles[0]
        if len(self._troubles) == _MAX_TROUBLES and since < _TROUBLE_S:
            raise error

    async def _read_ahead(self) -> None:
        self._queues.taken.clear()
        wanted = []
        for tp, queue in self._queues.of.items():
            if queue.has_room:
                if queue.aligned:
                    wanted.append(tp)
                else:
                    self._read_raw(tp, queue)
        if not wanted:
            # The client raises its group errors only from a call for records.
            await self._consumer.getmany(_NOWHERE, timeout_ms=0)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self._queues.taken.wait()
        elif steady() < self._singly_until:
            await self._read_singly(wanted)
        else:
            # Nothing, not even a `seek`, runs between this return and the put into the queues.
            self._put(
                await getmany(
                    self._consumer, *wanted, timeout_ms=_WAIT_MS, max_records=_MAX_RECORDS
                )
            )
            await asyncio.sleep(0)

    async def _read_singly(self, wanted: list[TopicPartition]) -> None:
        came = 0
        for tp in wanted:
            try:
                got = await getmany(self._consumer, tp, timeout_ms=0, max_records=_MAX_RECORDS)
            except Exception as error:
                self._singly_until = steady() + _SINGLY_S
                self._handle_unreadable(tp, error)
            else:
                self._put(got)
                came += len(got)
        await asyncio.sleep(0 if came else _WAIT_MS / 1000)

    def _handle_unreadable(self, tp: TopicPartition, error: Exception) -> None:
        """Bypass the client's parser where it raised, once at each offset."""
        queue = self._queues.of.get(tp)
        if queue is None:
            return
        if not isinstance(error, UNREADABLE) or queue.unreadable == queue.next:
            self._queues.fail({tp}, error)
            return
        queue.unreadable = queue.next
        queue.aligned = False
        now = steady()
        if now >= queue.quiet_until:
            queue.quiet_until = now + _SINGLY_S
            _log.warning(
                "inputs_read_raw", topic=tp.topic, partition=tp.partition, why=words_of(error)
            )

    def _put(self, got: dict[TopicPartition, list[FetchedRecord]]) -> None:
        for tp, records in got.items():
            queue = self._queues.of.get(tp)
            if queue is None or not queue.aligned:
                continue
            if queue.follows(records):
                self._queues.put(tp, queue, records, queue.next + len(records))
            else:
                # A transaction marker took an offset, or a record carries a wrong offset.
                queue.aligned = False

    def _read_raw(self, tp: TopicPartition, queue: Queue) -> None:
        if tp not in self._raw:
            task = asyncio.create_task(self._fetch_raw(tp, queue), name=f"raw fetch {tp}")
            self._raw[tp] = task
            task.add_done_callback(lambda _: self._raw_ended(tp))

    def _raw_ended(self, tp: TopicPartition) -> None:
        del self._raw[tp]
        self._queues.taken.set()

    async def _fetch_raw(self, tp: TopicPartition, queue: Queue) -> None:
        """Fetch records without the client's parser, up to the start of a batch."""
        try:
            found = await fetch(self._consumer, tp, queue.next)
            if self._queues.of.get(tp) is not queue:
                return  # a seek or a revocation came in between
            following = queue.next if found.next is None else found.next
            self._consumer.seek(tp, following)
        except kafka.KafkaError as error:
            if error.retriable and not isinstance(error, UNREADABLE):
                await asyncio.sleep(_RETRY_S)
            elif self._queues.of.get(tp) is queue:
                self._queues.fail({tp}, error)
        except Exception as error:
            if self._queues.of.get(tp) is queue:
                self._queues.fail({tp}, error)
        else:
            self._queues.put(tp, queue, found.records, following)
            queue.aligned = True

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Continue at an offset; drop the waiting records."""
        self._consumer.seek(tp, offset)
        self._queues.begin(tp, offset)

    def resume(self, *tps: TopicPartition) -> None:
        """Start to fetch."""
        self._consumer.resume(*tps)

    def forget(self, tps: set[TopicPartition]) -> None:
        """Read no more of the revoked partitions."""
        self._queues.forget(tps)

    async def locate(self) -> None:
        """Refresh the leaders of partitions: nothing else would reveal a deposed leader."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOCATE_S):
                await self._consumer._client.force_metadata_update()

    async def position(self, tp: TopicPartition) -> int:
        """Return the offset of the next record that `getmany` returns."""
        queue = self._queues.of.get(tp)
        if queue is not None and queue.records:
            return int(queue.records[0].offset)
        return int(await self._consumer.position(tp))

    async def getmany(
        self, *tps: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[FetchedRecord]]:
        """Take waiting records, or wait for some; see `Queues.getmany`."""
        return await self._queues.getmany(*tps, timeout_ms=timeout_ms, max_records=max_records)
