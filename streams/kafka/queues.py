"""Inputs that were read and not taken yet, by partition, and those who wait for them."""

from __future__ import annotations

import asyncio
import contextlib
from bisect import bisect_right
from collections import deque
from itertools import accumulate, islice
from typing import Final

from aiokafka import TopicPartition

from streams.kafka.wire.client_records import Record

_MOST_RECORDS: Final = 2_000  # waiting of one partition of a topic
_MOST_BYTES: Final = 4 << 20
MOST_TAKEN_BYTES: Final = 8 << 20
"""Most bytes of inputs in one batch, unless its first record alone has more."""


class Queue:
    """Records of one partition of a topic that nobody has taken yet.

    Attributes:
        bytes: what they take, headers and all.
        next: the offset of the record that comes next.
        aligned: the client reads on from where a batch begins. Begun within one, a parser that
            believes what records say of their offsets could take them for later ones.
        unreadable: where the client's parser raised last.
        quiet_until: when that is worth another line of the log.
    """

    def __init__(self, start: int) -> None:
        self.records: deque[Record] = deque()
        self._sizes: deque[int] = deque()
        self.bytes = 0
        self.next = start
        self.aligned = False
        self.unreadable = -1
        self.quiet_until = 0.0

    @property
    def has_room(self) -> bool:
        return len(self.records) < _MOST_RECORDS and self.bytes < _MOST_BYTES

    def follows(self, records: list[Record]) -> bool:
        """Tell whether these are the next ones, with none left out between them."""
        expected = range(self.next, self.next + len(records))
        return [record.offset for record in records] == list(expected)

    def put(self, records: list[Record], following: int) -> None:
        """Add records; the one that comes after them has the offset `following`."""
        sizes = list(map(_size, records))
        self.next = following
        self.records.extend(records)
        self._sizes.extend(sizes)
        self.bytes += sum(sizes)

    def take(self, most: int, most_bytes: int, least: int) -> tuple[list[Record], int]:
        """Return the first records, at least `least` if there are any, and their bytes."""
        sums = list(accumulate(islice(self._sizes, most)))
        count = min(len(sums), max(least, bisect_right(sums, most_bytes)))
        records, sizes = self.records, self._sizes
        taken = [records.popleft() for _ in range(count)]
        for _ in range(count):
            sizes.popleft()
        size = sums[count - 1] if count else 0
        self.bytes -= size
        return taken, size


def _size(record: Record) -> int:
    key, value = record.key, record.value
    size = (0 if key is None else len(key)) + (0 if value is None else len(value))
    if record.headers:
        size += sum([len(name) + len(text or b"") for name, text in record.headers])
    return size


class Queues:
    """The queues of all partitions, the error of each that has none, and those who wait.

    Attributes:
        of: each partition's queue, from a `seek` until `forget` or an error.
        taken: set when a queue may have room again, or has come.
    """

    def __init__(self) -> None:
        self.of: dict[TopicPartition, Queue] = {}
        self.taken = asyncio.Event()
        self._errors: dict[TopicPartition, Exception] = {}
        self._filled: dict[int, asyncio.Event] = {}

    def begin(self, tp: TopicPartition, offset: int) -> None:
        """Begin with an empty queue; what waited is dropped."""
        self.of[tp] = Queue(offset)
        self._errors.pop(tp, None)
        self.taken.set()

    def forget(self, tps: set[TopicPartition]) -> None:
        """Keep nothing of partitions that were revoked."""
        for tp in tps:
            self.of.pop(tp, None)
            self._errors.pop(tp, None)

    def put(self, tp: TopicPartition, queue: Queue, records: list[Record], following: int) -> None:
        """Add records to a queue and wake the processor that waits for them."""
        queue.put(records, following)
        self._waiting(tp).set()

    def tell(self, of: set[TopicPartition], error: Exception) -> None:
        """Give an error to whoever reads these partitions."""
        for tp in of & self.of.keys():
            # Not read again before a `seek`: an error that lasts must not hold up the others.
            del self.of[tp]
            self._errors[tp] = error
            self._waiting(tp).set()

    def _waiting(self, tp: TopicPartition) -> asyncio.Event:
        return self._filled.setdefault(tp.partition, asyncio.Event())

    async def getmany(
        self, *tps: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[Record]]:
        """Take records that have come, those of the first topic first, or wait for some.

        Args:
            tps: of one partition number.
            timeout_ms: longest wait for the first record.
            max_records: most records, all topics together; most bytes are `MOST_TAKEN_BYTES`.
        Raises: whatever kept them from coming.
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
        self, tps: tuple[TopicPartition, ...], most: int | None
    ) -> dict[TopicPartition, list[Record]]:
        left, left_bytes = _MOST_RECORDS if most is None else most, MOST_TAKEN_BYTES
        got: dict[TopicPartition, list[Record]] = {}
        for tp in tps:
            error = self._errors.pop(tp, None)
            if error is not None:
                raise error
            queue = self.of.get(tp)
            if queue is None:
                continue
            # The first record of a batch is taken whatever its size.
            records, size = queue.take(left, left_bytes, least=0 if got else 1)
            if records:
                got[tp] = records
                left -= len(records)
                left_bytes -= size
        if got:
            self.taken.set()
        return got
