"""Records as the client's C parser returns them, without one more object for each.

The client builds a `ConsumerRecord` of eleven fields for every record; a busy worker spends more
on that than on the rest of reading. This module unpacks the fetched data instead. The client
still decides the rest: which partitions to read, its position, its errors, its next fetch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Protocol

from aiokafka import TopicPartition
from aiokafka import errors as kafka
from aiokafka.consumer.fetcher import FetchResult, PartitionRecords


class Record(Protocol):
    """The fields of a record that the inputs need, from the client's parser or from ours."""

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
    """The fetched records of one partition; it replaces the client's own unpacking.

    Inputs are read uncommitted, so this skips only the markers of transactions, like the client.

    Attributes:
        next_fetch_offset: offset of the next record, as in the client's class.
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
    """Return the same as the client's `getmany`, in the same order.

    Args:
        consumer: started; it reads uncommitted records and checks their CRCs.
    Raises: the errors of the client's `getmany`.
    """
    # A private attribute, the only way to the fetched data; tests/kafka/test_client_records.py.
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
    """Wait until the client has fetched records of any partition."""
    try:
        await asyncio.wait([waiter], timeout=seconds)
        if waiter.done():
            waiter.result()  # raises the error that stops the fetches
    finally:
        waiter.cancel()


def _unpack_here(tp: TopicPartition, fetched: Any) -> None:
    """Replace the client's unpacking of fetched data, if nothing was read from it yet."""
    if type(fetched) is not FetchResult:
        return  # no data, or an error, which the client raises
    begun = fetched._partition_records
    if type(begun) is PartitionRecords:
        fetched._partition_records = _Unpacked(tp, begun._records, begun.next_fetch_offset)
