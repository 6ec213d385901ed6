"""Fetch records of one partition past the client's own parser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aiokafka import ConsumerRecord, TopicPartition
from aiokafka import errors as kafka
from aiokafka.protocol.fetch import FetchRequest

from streams.kafka.wire.record_batches import Unpacked, unpacked

_BYTES: Final = 1 << 18  # unpacked in one go: no other task has its turn meanwhile
_READ_UNCOMMITTED: Final = 0
UNREADABLE: Final = (ValueError, kafka.CorruptRecordException)
"""What the client's parser raises, of a damaged batch and of some that the broker has taken."""


async def fetch(consumer: Any, tp: TopicPartition, offset: int) -> Unpacked:
    """Return what the broker has from an offset on, at once, in whole batches.

    Args:
        consumer: started; its connections are used.
    Raises: KafkaError: retriable if another try may help.
    """
    # Private, and the only way to a consumer's connections; tests/kafka/test_raw_fetch.py.
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
    """Return what comes next of partitions that the client's parser cannot read, and seek past it.

    Args:
        starts: from which offset on, for each partition.
    Raises: as `fetch`.
    """
    got = {}
    for tp, start in starts.items():
        found = await fetch(consumer, tp, start)
        consumer.seek(tp, start if found.next is None else found.next)
        if found.next is not None:
            got[tp] = found.records
    return got
