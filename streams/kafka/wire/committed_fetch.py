"""Fetch committed records of one partition when they are wanted, and not before.

A consumer of the client library asks its brokers twenty times a second whether anything has come.
Who is told of what comes needs one request, and none while nothing does.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from aiokafka import TopicPartition
from aiokafka import errors as kafka
from aiokafka.consumer.fetcher import READ_COMMITTED, PartitionRecords
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.record.memory_records import MemoryRecords

from streams.kafka.wire.brokers import Brokers

_BYTES: Final = 1 << 20  # the broker sends at least one batch whole
_WAIT_MS: Final = 500  # the longest for records that are not on the broker's own disk


class Fetched(NamedTuple):
    """What a broker sent.

    Attributes:
        records: offset and value of each; none of an open or aborted transaction.
        next: the offset after what was sent, also after what was left out of it.
        end: the last stable offset: where the oldest open transaction begins, or the log's end.
    """

    records: list[tuple[int, bytes]]
    next: int
    end: int


async def fetch_committed(brokers: Brokers, tp: TopicPartition, offset: int) -> Fetched:
    """Return the committed records from an offset on, as many as the broker sends at once.

    Raises: KafkaError, TimeoutError, OSError; OffsetOutOfRangeError: the log begins after the
        offset, or ends before it.
    """
    brokers.learn({tp.topic})
    node = await brokers.leader(tp)
    wanted = [(tp.topic, [(tp.partition, offset, _BYTES)])]
    request = FetchRequest(_WAIT_MS, 0, _BYTES, READ_COMMITTED, wanted)
    response = await brokers.ask(node, request)
    ((_, ((_, code, _, *more),)),) = response.topics
    error = kafka.for_code(code)
    if error is kafka.OffsetOutOfRangeError:
        raise error({tp: offset})
    if error is not kafka.NoError:
        raise error(tp)
    # Of version 4: last stable offset, aborted transactions, records. Later versions have other
    # fields between the first two; version 11 also one before the records.
    aborted = more[2] if response.API_VERSION >= 11 else more[-2]
    unpacking = PartitionRecords(
        tp, MemoryRecords(more[-1]), aborted, offset, None, None, True, READ_COMMITTED
    )
    records = [(record.offset, record.value or b"") for record in unpacking]
    return Fetched(records, unpacking.next_fetch_offset, more[0])
