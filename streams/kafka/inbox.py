"""The inputs of several partitions, read ahead for each, so that none waits for another."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka import errors as kafka

from streams.kafka.queues import Queue, Queues
from streams.kafka.wire.client_records import Record, getmany
from streams.kafka.wire.raw_fetch import UNREADABLE, fetch
from streams.logs import get_logger

_log = get_logger(__name__)

_MOST: Final = 500  # records unpacked before other tasks get their turn
_WAIT_MS: Final = 20  # also the longest time until a queue that has room again is read
_RETRY_S: Final = 0.1
_SINGLY_S: Final = 60.0  # that partitions are read one by one, after an error of one of them
_MOST_TROUBLE: Final = 20  # errors of no partition, within _TROUBLE_S: the client does not recover
_TROUBLE_S: Final = 10.0
_LOCATE_S: Final = 2.0
_NOWHERE: Final = TopicPartition("", 0)


def _partitions_of(error: Exception) -> set[TopicPartition] | None:
    """Return the partitions that an error says it is of, None if it does not say."""
    named = error.args[0] if error.args else None
    if isinstance(error, kafka.OffsetOutOfRangeError) and isinstance(named, dict):
        return set(named)
    return None


class Inbox:
    """A consumer whose records are taken from it as soon as they come, a bounded number.

    The client sends a broker no further fetch while any partition there has records that were
    not taken from it: a processor that is committing would hold up all the others.

    What the client's parser cannot read, or finds at an offset that does not follow the last
    one, is read past it, as is what comes first after a `seek`.

    Args:
        consumer: started; each of its partitions is paused until `seek` and `resume`.
    """

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._queues = Queues()
        self._raw: dict[TopicPartition, asyncio.Task[None]] = {}
        self._singly_until = 0.0
        self._troubles: deque[float] = deque(maxlen=_MOST_TROUBLE)

    async def run(self) -> None:
        """Read ahead until cancelled. Errors go to whoever reads the partition.

        Raises: KafkaError: the client has failed for good; only another one can go on.
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
                # The client has lost what it had taken of others, too, and does not say whose
                # error it is: read all past its parser, then each alone.
                self._singly_until = time.monotonic() + _SINGLY_S
                for queue in self._queues.of.values():
                    queue.aligned = False
                _log.warning("inputs_read_raw", error=type(error).__name__, why=str(error))
            except Exception as error:
                of = _partitions_of(error)
                if of is None:
                    # The client has lost what it had taken of others, too: they seek anew, as
                    # all do who are told. Then the one whose error it is gets it alone.
                    self._singly_until = time.monotonic() + _SINGLY_S
                    of = set(self._queues.of)
                self._queues.tell(of, error)
                _log.warning("inputs_not_read", error=type(error).__name__, why=str(error))
                self._note_trouble(error)
                await asyncio.sleep(_RETRY_S)

    def _note_trouble(self, error: Exception) -> None:
        """Give the client up where it raises time after time.

        After an answer to a heartbeat that it did not expect, its half that belongs to the group
        is dead for good, and says so to each who reads: a member evicted long ago would go on.
        """
        if isinstance(error, kafka.OffsetOutOfRangeError):
            return
        self._troubles.append(time.monotonic())
        since = self._troubles[-1] - self._troubles[0]
        if len(self._troubles) == _MOST_TROUBLE and since < _TROUBLE_S:
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
            # The client's group tells its errors only to those who ask for records.
            await self._consumer.getmany(_NOWHERE, timeout_ms=0)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self._queues.taken.wait()
        elif time.monotonic() < self._singly_until:
            await self._read_singly(wanted)
        else:
            # Nothing comes between what this returns and its place in a queue, no `seek` either.
            self._put(
                await getmany(self._consumer, *wanted, timeout_ms=_WAIT_MS, max_records=_MOST)
            )
            await asyncio.sleep(0)

    async def _read_singly(self, wanted: list[TopicPartition]) -> None:
        came = 0
        for tp in wanted:
            try:
                got = await getmany(self._consumer, tp, timeout_ms=0, max_records=_MOST)
            except Exception as error:
                self._singly_until = time.monotonic() + _SINGLY_S
                self._unread(tp, error)
            else:
                self._put(got)
                came += len(got)
        await asyncio.sleep(0 if came else _WAIT_MS / 1000)

    def _unread(self, tp: TopicPartition, error: Exception) -> None:
        """Have a partition read past the client's parser where it raised, but not for ever."""
        queue = self._queues.of.get(tp)
        if queue is None:
            return
        if not isinstance(error, UNREADABLE) or queue.unreadable == queue.next:
            self._queues.tell({tp}, error)
            return
        queue.unreadable = queue.next
        queue.aligned = False
        now = time.monotonic()
        if now >= queue.quiet_until:
            queue.quiet_until = now + _SINGLY_S
            _log.warning("inputs_read_raw", topic=tp.topic, partition=tp.partition, why=str(error))

    def _put(self, got: dict[TopicPartition, list[Record]]) -> None:
        for tp, records in got.items():
            queue = self._queues.of.get(tp)
            if queue is None or not queue.aligned:
                continue
            if queue.follows(records):
                self._queues.put(tp, queue, records, queue.next + len(records))
            else:
                # Markers of transactions take offsets; or a record lies about its own.
                queue.aligned = False

    def _read_raw(self, tp: TopicPartition, queue: Queue) -> None:
        if tp not in self._raw:
            task = asyncio.create_task(self._go_on_raw(tp, queue), name=f"raw fetch {tp}")
            self._raw[tp] = task
            task.add_done_callback(lambda _: self._raw_ended(tp))

    def _raw_ended(self, tp: TopicPartition) -> None:
        del self._raw[tp]
        self._queues.taken.set()

    async def _go_on_raw(self, tp: TopicPartition, queue: Queue) -> None:
        """Read one fetch of a partition past the client's parser, to where a batch begins."""
        try:
            found = await fetch(self._consumer, tp, queue.next)
            if self._queues.of.get(tp) is not queue:
                return  # sought elsewhere meanwhile, or revoked
            following = queue.next if found.next is None else found.next
            self._consumer.seek(tp, following)
        except kafka.KafkaError as error:
            if error.retriable and not isinstance(error, UNREADABLE):
                await asyncio.sleep(_RETRY_S)
            elif self._queues.of.get(tp) is queue:
                self._queues.tell({tp}, error)
        except Exception as error:
            if self._queues.of.get(tp) is queue:
                self._queues.tell({tp}, error)
        else:
            self._queues.put(tp, queue, found.records, following)
            queue.aligned = True

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Go on from an offset; what waited is dropped."""
        self._consumer.seek(tp, offset)
        self._queues.begin(tp, offset)

    def resume(self, *tps: TopicPartition) -> None:
        """Begin to fetch."""
        self._consumer.resume(*tps)

    def forget(self, tps: set[TopicPartition]) -> None:
        """Read nothing more of partitions that were revoked."""
        self._queues.forget(tps)

    async def locate(self) -> None:
        """Ask anew who leads what, for a while: of a deposed leader nothing else would tell."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOCATE_S):
                await self._consumer._client.force_metadata_update()

    async def position(self, tp: TopicPartition) -> int:
        """Return the offset of the next record that `getmany` gives."""
        queue = self._queues.of.get(tp)
        if queue is not None and queue.records:
            return int(queue.records[0].offset)
        return int(await self._consumer.position(tp))

    async def getmany(
        self, *tps: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[Record]]:
        """Take records that have come or wait for some; see `Queues.getmany`."""
        return await self._queues.getmany(*tps, timeout_ms=timeout_ms, max_records=max_records)
