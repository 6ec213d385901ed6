"""Records as the client's parser in C gives them, without an object more for each.

The client makes a `ConsumerRecord` of eleven fields of every record; a busy worker spends more
on that than on all the rest of reading. What was fetched is unpacked here instead. All else is
the client's own: which partitions may be read, its position, its errors, its next fetch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Protocol

from aiokafka import TopicPartition
from aiokafka import errors as kafka
from aiokafka.consumer.fetcher import FetchResult, PartitionRecords


class Record(Protocol):
    """The part of a record that the inputs need: of the client's parser, or of our own."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Any: ...


class _Unpacked:
    """What was fetched of one partition, in the place of the client's own unpacking.

    Inputs are read whether their transaction was committed or not, so of batches only markers
    are left out, as the client does.

    Attributes:
        next_fetch_offset: as in the client's: of the record that comes next.
    """

    def __init__(self, tp: TopicPartition, records: Any, start: int) -> None:
        self._tp = tp
        self._records = records
        self.next_fetch_offset = start
        self._unpacking = self._unpack()

    def __iter__(self) -> Iterator[Record]:
        return self._unpacking

    def _unpack(self) -> Iterator[Record]:
        while self._records.has_next():
            batch = self._records.next_batch()
            if not batch.validate_crc():
                raise kafka.CorruptRecordException(f"Invalid CRC - {self._tp}")
            if not batch.is_control_batch:
                for record in batch:
                    if record.offset >= self.next_fetch_offset:
                        self.next_fetch_offset = record.offset + 1
                        yield record
            self.next_fetch_offset = batch.next_offset


async def getmany(
    consumer: Any, *tps: TopicPartition, timeout_ms: int, max_records: int
) -> dict[TopicPartition, list[Record]]:
    """Return what the client's `getmany` does, in the client's own order.

    Args:
        consumer: started, one that reads uncommitted records and checks their checksums.
    Raises: as the client's.
    """
    # Private, and the only way to what was fetched; tests/kafka/test_client_records.py.
    fetcher = consumer._fetcher
    if timeout_ms and not any(tp in fetcher._records for tp in tps):
        await _wait(fetcher._create_fetch_waiter(), timeout_ms / 1000)
    for tp in tps:
        _unpack_here(tp, fetcher._records.get(tp))
    got: dict[TopicPartition, list[Record]] = await consumer.getmany(
        *tps, timeout_ms=0, max_records=max_records
    )
    return got


async def _wait(waiter: asyncio.Future[None], seconds: float) -> None:
    """Wait until the client has fetched something, of whichever partition."""
    try:
        await asyncio.wait([waiter], timeout=seconds)
        if waiter.done():
            waiter.result()  # raises what keeps the client from fetching
    finally:
        waiter.cancel()


def _unpack_here(tp: TopicPartition, fetched: Any) -> None:
    """Take the client's unpacking out of what was fetched, if nothing was read of it yet."""
    if type(fetched) is not FetchResult:
        return  # nothing, or an error, which the client raises
    begun = fetched._partition_records
    if type(begun) is PartitionRecords:
        fetched._partition_records = _Unpacked(tp, begun._records, begun.next_fetch_offset)
