"""Fetch records of one partition without the client's own parser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aiokafka import ConsumerRecord, TopicPartition
from aiokafka import errors as kafka
from aiokafka.protocol.fetch import FetchRequest

from streams.kafka.wire.record_batches import Unpacked, unpacked

_BYTES: Final = 1 << 18  # small, since no other task runs while these are unpacked
_READ_UNCOMMITTED: Final = 0
UNREADABLE: Final = (ValueError, kafka.CorruptRecordException)
"""The errors of the client's parser, on damaged batches and on some that the broker accepts."""


async def fetch(consumer: Any, tp: TopicPartition, offset: int) -> Unpacked:
    """Return the broker's records from an offset on, in whole batches, without waiting for more.

    Args:
        consumer: a started consumer, whose connections this uses.
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
    found = unpacked(data, tp, offset)
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
