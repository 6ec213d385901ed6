"""Batches appended by a producer that is made up: the broker's answers are the test's."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.structs import RecordMetadata, TopicPartition

from accountant.errors import BudgetError
from streams.errors import Unavailable
from streams.kafka import appender
from streams.kafka.appender import Appender, KeyedBody
from streams.kafka.deployment import Deployment

PARTITIONS = 4


class _Producer:
    """Answers each batch with the next of some offsets.

    Attributes:
        sizes: of the batches, in records.
    """

    def __init__(self, offsets: list[int]) -> None:
        self._offsets = offsets
        self.sizes: list[int] = []

    async def start(self) -> None:
        pass

    async def partitions_for(self, _topic: str) -> range:
        return range(PARTITIONS)

    def create_batch(self) -> BatchBuilder:
        return BatchBuilder(65_536, 0)

    async def send_batch(self, batch: BatchBuilder, topic: str, *, partition: int) -> Any:
        self.sizes.append(batch.record_count())
        offset = self._offsets.pop(0)
        place = TopicPartition(topic, partition)
        sent = asyncio.get_running_loop().create_future()
        sent.set_result(RecordMetadata(topic, partition, place, offset, -1, 0, 0))
        return sent


async def append(producer: _Producer, bodies: list[bytes]) -> tuple[Any, dict[int, BudgetError]]:
    """Return the offsets of bodies by their places, and the errors."""
    appending, offsets = Appender(Deployment(bootstrap="127.0.0.1:9")), dict[int, int]()
    await appending.start()
    records = [KeyedBody(body, b"d", 0) for body in bodies]
    failed = await appending.append_many("requests", records, offsets.__setitem__)
    return offsets, failed


def test_a_batch_of_unknown_offset_is_given_no_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    # So a broker answers a batch that it already has, and whose offset it has forgotten. Counted
    # on from -1, the second record would have the decision on the partition's first one.
    producer = _Producer([5, -1])
    monkeypatch.setattr(appender, "AIOKafkaProducer", lambda **_: producer)
    monkeypatch.setattr(appender, "with_short_connect", lambda client: client)
    bodies = [b"%d" % i + b"." * 30_000 for i in range(4)]
    offsets, failed = asyncio.run(append(producer, bodies))
    assert producer.sizes == [2, 2]
    assert offsets == {0: 5, 1: 6}
    assert set(failed) == {2, 3}
    for error in failed.values():
        assert isinstance(error, Unavailable)
        assert "same bytes" in str(error)
