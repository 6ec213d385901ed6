"""Queues of inputs, by partition, between the inbox and the processors."""

from __future__ import annotations

import asyncio
import contextlib
from bisect import bisect_right
from collections import deque
from itertools import accumulate, islice
from typing import Final

from aiokafka import TopicPartition

from streams.kafka.wire.fetch import FetchedRecord

_MAX_RECORDS: Final = 2_000  # waiting in the queue of one partition of a topic
_MAX_BYTES: Final = 4 << 20
MAX_TAKEN_BYTES: Final = 8 << 20
"""Most bytes of inputs in one batch, unless its first record alone is larger."""


class Queue:
    """Waiting records of one partition of a topic.

    Attributes:
        bytes: size of the records, headers included.
        next: offset of the next record to read.
        aligned: whether the client continues at the start of a batch. From within a batch, a
            parser that trusts the records' own offsets could take them for later records.
        unreadable: the offset where the client's parser last raised.
        quiet_until: monotonic seconds before which such an error is not logged again.
    """

    def __init__(self, start: int) -> None:
        self.records: deque[FetchedRecord] = deque()
        self._sizes: deque[int] = deque()
        self.bytes = 0
        self.next = start
        self.aligned = False
        self.unreadable = -1
        self.quiet_until = 0.0

    @property
    def has_room(self) -> bool:
        return len(self.records) < _MAX_RECORDS and self.bytes < _MAX_BYTES

    def follows(self, records: list[FetchedRecord]) -> bool:
        """Return whether these are the next records, without a gap."""
        expected = range(self.next, self.next + len(records))
        return [record.offset for record in records] == list(expected)

    def put(self, records: list[FetchedRecord], following: int) -> None:
        """Add records; the next record after them has the offset `following`."""
        sizes = list(map(_size, records))
        self.next = following
        self.records.extend(records)
        self._sizes.extend(sizes)
        self.bytes += sum(sizes)

    def take(self, limit: int, max_bytes: int, least: int) -> tuple[list[FetchedRecord], int]:
        """Remove the first records, at least `least` if present; return them and their size."""
        sums = list(accumulate(islice(self._sizes, limit)))
        count = min(len(sums), max(least, bisect_right(sums, max_bytes)))
        records, sizes = self.records, self._sizes
        taken = [records.popleft() for _ in range(count)]
        for _ in range(count):
            sizes.popleft()
        size = sums[count - 1] if count else 0
        self.bytes -= size
        return taken, size


def _size(record: FetchedRecord) -> int:
    key, value = record.key, record.value
    size = (0 if key is None else len(key)) + (0 if value is None else len(value))
    if record.headers:
        size += sum([len(name) + len(text or b"") for name, text in record.headers])
    return size


class Queues:
    """The queues of all partitions; a partition that failed has an error instead of a queue.

    Attributes:
        of: each partition's queue, from a `seek` until `forget` or an error.
        taken: set when a queue may have room again, or is new.
    """

    def __init__(self) -> None:
        self.of: dict[TopicPartition, Queue] = {}
        self.taken = asyncio.Event()
        self._errors: dict[TopicPartition, Exception] = {}
        self._filled: dict[int, asyncio.Event] = {}

    def begin(self, tp: TopicPartition, offset: int) -> None:
        """Start an empty queue at an offset; drop the waiting records."""
        self.of[tp] = Queue(offset)
        self._errors.pop(tp, None)
        self.taken.set()

    def forget(self, tps: set[TopicPartition]) -> None:
        """Drop the records and errors of the revoked partitions."""
        for tp in tps:
            self.of.pop(tp, None)
            self._errors.pop(tp, None)

    def put(
        self, tp: TopicPartition, queue: Queue, records: list[FetchedRecord], following: int
    ) -> None:
        """Add records to a queue and wake the processor that waits for them."""
        queue.put(records, following)
        self._waiting(tp).set()

    def fail(self, of: set[TopicPartition], error: Exception) -> None:
        """Hand an error to the processors of these partitions."""
        for tp in of & self.of.keys():
            # No read before the next `seek`: a lasting error must not hold up other partitions.
            del self.of[tp]
            self._errors[tp] = error
            self._waiting(tp).set()

    def _waiting(self, tp: TopicPartition) -> asyncio.Event:
        return self._filled.setdefault(tp.partition, asyncio.Event())

    async def getmany(
        self, *tps: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[FetchedRecord]]:
        """Take waiting records, those of the first topic first, or wait for some.

        Args:
            tps: of one partition number.
            timeout_ms: longest wait for the first record.
            max_records: limit for all topics together; the limit in bytes is `MAX_TAKEN_BYTES`.
        Raises: the error that stopped the reading of these partitions.
        """
        filled = self._waiting(tps[0])
        got = self._take(tps, max_records)
        if not got and timeout_ms:
            filled.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_ms / 1000):
                    await filled.wait()
            got = self._take(tps, max_records)
        return got

    def _take(
        self, tps: tuple[TopicPartition, ...], limit: int | None
    ) -> dict[TopicPartition, list[FetchedRecord]]:
        room, room_bytes = _MAX_RECORDS if limit is None else limit, MAX_TAKEN_BYTES
        got: dict[TopicPartition, list[FetchedRecord]] = {}
        for tp in tps:
            error = self._errors.pop(tp, None)
            if error is not None:
                raise error
            queue = self.of.get(tp)
            if queue is None:
                continue
            # A batch always takes its first record, whatever its size.
            records, size = queue.take(room, room_bytes, least=0 if got else 1)
            if records:
                got[tp] = records
                room -= len(records)
                room_bytes -= size
        if got:
            self.taken.set()
        return got
