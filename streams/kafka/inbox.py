"""The inputs of several partitions, read ahead for each, so that none waits for another."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Any, Final

from aiokafka import ConsumerRecord, TopicPartition
from aiokafka import errors as kafka

_AT_A_TIME: Final = 500  # records unpacked before other tasks get their turn
_MOST_RECORDS: Final = 2_000  # waiting of one partition of a topic
_MOST_BYTES: Final = 4 << 20
_WAIT_MS: Final = 200
_AGAIN_S: Final = 0.1


class _Queue:
    """Records of one partition of a topic that nobody has taken yet."""

    def __init__(self) -> None:
        self.records: deque[ConsumerRecord] = deque()
        self.bytes = 0

    @property
    def has_room(self) -> bool:
        return len(self.records) < _MOST_RECORDS and self.bytes < _MOST_BYTES

    def put(self, records: list[ConsumerRecord]) -> None:
        self.records.extend(records)
        self.bytes += sum([record.serialized_value_size for record in records])

    def take(self, most: int) -> list[ConsumerRecord]:
        records = self.records
        taken = [records.popleft() for _ in range(min(most, len(records)))]
        self.bytes -= sum([record.serialized_value_size for record in taken])
        return taken


class Inbox:
    """A consumer whose records are taken from it as soon as they come, a bounded number.

    The client sends a broker no further fetch while any partition there has records that were
    not taken from it: a processor that is committing would hold up all the others.

    Args:
        consumer: started; each of its partitions is paused until `seek` and `resume`.
    """

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._queues: dict[TopicPartition, _Queue] = {}
        self._errors: dict[TopicPartition, Exception] = {}
        self._filled: dict[int, asyncio.Event] = {}
        self._taken = asyncio.Event()

    async def run(self) -> None:
        """Read ahead until cancelled. Errors go to whoever reads the partition."""
        while True:
            try:
                await self._read_ahead()
            except Exception as error:
                self._tell(error)
                await asyncio.sleep(_AGAIN_S)

    async def _read_ahead(self) -> None:
        self._taken.clear()
        wanted = [tp for tp, queue in self._queues.items() if queue.has_room]
        if not wanted:
            await self._taken.wait()
            return
        # Nothing comes between what this returns and its place in the queue, no `seek` either.
        got = await self._consumer.getmany(*wanted, timeout_ms=_WAIT_MS, max_records=_AT_A_TIME)
        for tp, records in got.items():
            if tp in self._queues:
                self._queues[tp].put(records)
                self._wake(tp)
        if got:
            await asyncio.sleep(0)

    def _tell(self, error: Exception) -> None:
        of = set(self._queues)
        if isinstance(error, kafka.OffsetOutOfRangeError) and isinstance(error.args[0], dict):
            of &= error.args[0].keys()
        for tp in of:
            self._errors[tp] = error
            self._wake(tp)

    def _wake(self, tp: TopicPartition) -> None:
        self._of(tp).set()

    def _of(self, tp: TopicPartition) -> asyncio.Event:
        return self._filled.setdefault(tp.partition, asyncio.Event())

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Go on from an offset; what waited is dropped."""
        self._consumer.seek(tp, offset)
        self._queues[tp] = _Queue()
        self._errors.pop(tp, None)
        self._taken.set()

    def resume(self, *tps: TopicPartition) -> None:
        """Begin to fetch."""
        self._consumer.resume(*tps)

    def forget(self, tps: set[TopicPartition]) -> None:
        """Read nothing more of partitions that were revoked."""
        for tp in tps:
            self._queues.pop(tp, None)
            self._errors.pop(tp, None)

    async def beginning_offsets(self, tps: list[TopicPartition]) -> Any:
        """Return the first offset of each."""
        return await self._consumer.beginning_offsets(tps)

    async def end_offsets(self, tps: list[TopicPartition]) -> Any:
        """Return the offset after the last of each."""
        return await self._consumer.end_offsets(tps)

    async def position(self, tp: TopicPartition) -> int:
        """Return the offset of the next record that `getmany` gives."""
        queue = self._queues.get(tp)
        if queue is not None and queue.records:
            return int(queue.records[0].offset)
        return int(await self._consumer.position(tp))

    async def getmany(
        self, *tps: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Take records that have come, those of the first topic first, or wait for some.

        Args:
            tps: of one partition number.
            timeout_ms: longest wait for the first record.
            max_records: most records, all topics together.
        Raises: whatever kept them from coming.
        """
        filled = self._of(tps[0])
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
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        left = _MOST_RECORDS if most is None else most
        got = {}
        for tp in tps:
            error = self._errors.pop(tp, None)
            if error is not None:
                raise error
            queue = self._queues.get(tp)
            if queue is not None and queue.records and left:
                got[tp] = queue.take(left)
                left -= len(got[tp])
        if got:
            self._taken.set()
        return got
