"""Fetch records: in one request, committed ones only, or from the client library's buffers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

from aiokafka import ConsumerRecord, TopicPartition
from aiokafka import errors as kafka
from aiokafka.consumer.fetcher import READ_COMMITTED, FetchResult, PartitionRecords
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.record.memory_records import MemoryRecords

from streams.kafka.wire.brokers import Brokers
from streams.kafka.wire.record_batches import BatchContents, unpack_batches

_BYTES: Final = 1 << 18  # small, since no other task runs while these are unpacked
_READ_UNCOMMITTED: Final = 0
UNREADABLE: Final = (ValueError, kafka.CorruptRecordException)
"""The errors of the client's parser, on damaged batches and on some that the broker accepts."""
_FETCH_BYTES: Final = 1 << 20  # the broker sends at least one batch whole
_WAIT_MS: Final = 500  # the longest for records that are not on the broker's own disk


async def fetch(
    consumer: Any, tp: TopicPartition, offset: int, most: int | None = None
) -> BatchContents:
    """Return the broker's records from an offset on, in whole batches, without waiting for more.

    Args:
        consumer: a started consumer, whose connections this uses.
        most: return no more batches than this.
    Raises: KafkaError: retriable if another try may help.
    """
    # aiokafka's private attribute, the only way to a consumer's connections. A test,
    # tests/kafka/test_raw_fetch.py, notices a change of it.
    client = consumer._client
    node = client.cluster.leader_for_partition(tp)
    if node is None or node == -1:
        client.force_metadata_update()
        raise kafka.LeaderNotAvailableError(tp)
    wanted = [(tp.topic, [(tp.partition, offset, _BYTES)])]
    response = await client.send(node, FetchRequest(0, 1, _BYTES, _READ_UNCOMMITTED, wanted))
    ((_, ((_, code, *_, data),)),) = response.topics
    error = kafka.for_code(code)
    if error is kafka.OffsetOutOfRangeError:
        raise error({tp: offset})
    if error is not kafka.NoError:
        if error.invalid_metadata:
            client.force_metadata_update()
        raise error(tp)
    found = unpack_batches(data, tp, offset, most)
    if data and found.next is None:
        # The broker sends at least the first batch whole, however large.
        raise kafka.CorruptRecordException(f"{tp}: no whole batch at offset {offset}")
    return found


async def read_on(
    consumer: Any, starts: Mapping[TopicPartition, int]
) -> dict[TopicPartition, list[ConsumerRecord]]:
    """Return the next records of partitions that the client's parser cannot read; seek past them.

    Args:
        starts: the offset to begin at, for each partition.
    Raises: as `fetch`.
    """
    got = {}
    for tp, start in starts.items():
        found = await fetch(consumer, tp, start)
        consumer.seek(tp, start if found.next is None else found.next)
        if found.next is not None:
            got[tp] = found.records
    return got


class CommittedFetch(NamedTuple):
    """The committed records in one answer of a broker.

    Attributes:
        records: offset and value of each, without open and aborted transactions.
        next: the offset after the answer's last record, skipped records included.
        end: the last stable offset: where the oldest open transaction starts, or the log's end.
    """

    records: list[tuple[int, bytes]]
    next: int
    end: int


async def fetch_committed(brokers: Brokers, tp: TopicPartition, offset: int) -> CommittedFetch:
    """Return the committed records from an offset on, as many as the broker sends at once.

    Raises: KafkaError, TimeoutError, OSError; OffsetOutOfRangeError: the log begins after the
        offset, or ends before it.
    """
    brokers.learn({tp.topic})
    node = await brokers.leader(tp)
    wanted = [(tp.topic, [(tp.partition, offset, _FETCH_BYTES)])]
    request = FetchRequest(_WAIT_MS, 0, _FETCH_BYTES, READ_COMMITTED, wanted)
    response = await brokers.ask(node, request)
    ((_, ((_, code, _, *more),)),) = response.topics
    error = kafka.for_code(code)
    if error is kafka.OffsetOutOfRangeError:
        raise error({tp: offset})
    if error is not kafka.NoError:
        raise error(tp)
    # Version 4 has: last stable offset, aborted transactions, records. Later versions have other
    # fields between the first two; version 11 also has one before the records.
    aborted = more[2] if response.API_VERSION >= 11 else more[-2]
    unpacking = PartitionRecords(
        tp, MemoryRecords(more[-1]), aborted, offset, None, None, True, READ_COMMITTED
    )
    records = [(record.offset, record.value or b"") for record in unpacking]
    return CommittedFetch(records, unpacking.next_fetch_offset, more[0])


class FetchedRecord(Protocol):
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


class _RecordIterator:
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

    def __iter__(self) -> Iterator[FetchedRecord]:
        return self._unpacking

    def _unpack(self) -> Iterator[FetchedRecord]:
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
) -> dict[TopicPartition, list[FetchedRecord]]:
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
        _replace_unpacking(tp, fetcher._records.get(tp))
    got: dict[TopicPartition, list[FetchedRecord]] = await consumer.getmany(
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


def _replace_unpacking(tp: TopicPartition, fetched: Any) -> None:
    """Replace the client's unpacking of fetched data, if nothing was read from it yet."""
    if type(fetched) is not FetchResult:
        return  # no data, or an error, which the client raises
    begun = fetched._partition_records
    if type(begun) is PartitionRecords:
        fetched._partition_records = _RecordIterator(tp, begun._records, begun.next_fetch_offset)
        # It and its generator refer to each other: the bytes would wait for the garbage collector.
        begun._records_iterator = None
