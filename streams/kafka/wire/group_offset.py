"""The offset of a consumer group, with a text, that is committed with records or not at all.

A transaction's offsets are in a topic of the brokers' own. So they say what was written to another
topic, whatever happens to that one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from aiokafka import TopicPartition
from aiokafka import errors as kafka
from aiokafka.protocol.commit import OffsetFetchRequest

from streams.kafka.wire.brokers import Brokers


class GroupOffset(NamedTuple):
    """An offset that a consumer group has committed for a partition, and a text beside it."""

    group: str
    tp: TopicPartition
    offset: int
    text: str


async def fetch_offset(brokers: Brokers, group: str, tp: TopicPartition) -> GroupOffset | None:
    """Return what a group has committed for a partition, None if nothing or no longer.

    Raises: KafkaError.
    """
    request = OffsetFetchRequest(group, [(tp.topic, [tp.partition])])
    answer: Any = await brokers.ask_group(group, request)
    # An error of the whole request, such as a coordinator that still loads, leaves out the topics.
    whole = getattr(answer, "error_code", 0)
    rows = [row for _, partitions in answer.topics for row in partitions]
    for code in (whole, *(code for *_, code in rows)):
        error = kafka.for_code(code)
        if error is not kafka.NoError:
            brokers.forget_group(group)
            raise error(group)
    ((_, offset, text, _),) = rows
    return None if offset < 0 else GroupOffset(group, tp, offset, text or "")
