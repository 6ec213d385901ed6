"""Records fetched past the client's parser, on a real broker.

`fetch` rests on names of the client that it does not promise to keep: a newer client that lacks
one fails here.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncIterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka import errors as kafka
from aiokafka.client import AIOKafkaClient

from streams.kafka.deployment import Deployment, TopicNames
from streams.kafka.log import topics
from streams.kafka.wire.fetch import fetch
from streams.kafka.wire.reader import stop
from streams.testing import LocalBroker
from tests.kafka.raw_batches import Raw, append, batch


@contextlib.asynccontextmanager
async def reading(
    broker: LocalBroker, name: str
) -> AsyncIterator[tuple[AIOKafkaConsumer, TopicPartition]]:
    """Yield a consumer and the only partition of an empty topic."""
    where = Deployment(
        bootstrap=broker.bootstrap, application=name, topics=TopicNames(f"{name}."), partitions=1
    )
    await topics.create(where)
    tp = TopicPartition(where.topics.requests, 0)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=broker.bootstrap, auto_offset_reset="none", enable_auto_commit=False
    )
    await consumer.start()
    try:
        consumer.assign([tp])
        consumer.seek(tp, 0)
        await consumer.end_offsets([tp])  # the client then looks up the partition's leader
        yield consumer, tp
    finally:
        await stop(consumer)


async def by_the_client(
    consumer: AIOKafkaConsumer, tp: TopicPartition, count: int
) -> list[ConsumerRecord]:
    found: list[ConsumerRecord] = []
    while len(found) < count:
        got = await consumer.getmany(tp, timeout_ms=30_000)
        assert got, "nothing came"
        found += got[tp]
    return found


async def test_a_raw_fetch_finds_the_same_records_as_the_client(
    broker: LocalBroker, application: str
) -> None:
    async with reading(broker, application) as (consumer, tp):
        assert await fetch(consumer, tp, 0) == ([], None)
        records = [(b"k%d" % i, b"v" * i * 50) for i in range(200)]
        records += [(None, b"no key"), (b"no value", None), (b"", b"")]
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=5)
        async with producer:
            sent = [
                await producer.send(tp.topic, value, key=key, partition=0) for key, value in records
            ]
            for each in sent:
                await each
        theirs = await by_the_client(consumer, tp, len(records))
        ours: list[ConsumerRecord] = []
        while (found := await fetch(consumer, tp, len(ours))).next is not None:
            ours += found.records
            assert found.next == len(ours)
        assert ours == theirs
        # It also starts within a batch.
        assert (await fetch(consumer, tp, 7)).records[0] == theirs[7]
        with pytest.raises(kafka.OffsetOutOfRangeError):
            await fetch(consumer, tp, 1_000)


async def test_a_raw_fetch_uses_the_brokers_offsets_and_skips_markers(
    broker: LocalBroker, application: str
) -> None:
    async with reading(broker, application) as (consumer, tp):
        liar = Raw(b"k", b"liar", offset=5, headers=[(b"\xff", b"")])
        assert await append(broker.bootstrap, tp.topic, 0, batch([liar, Raw(b"k", b"1")])) == 0
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap, transactional_id=application
        )
        async with producer:
            for value in (b"committed", b"after"):
                async with producer.transaction():
                    await producer.send_and_wait(tp.topic, value, partition=0)
        found = await fetch(consumer, tp, 0)
        assert [(record.offset, record.value) for record in found.records] == [
            (0, b"liar"),
            (1, b"1"),
            (2, b"committed"),
            (4, b"after"),
        ]
        assert found.next in {5, 6}  # the last marker may be written after its answer


def test_the_client_library_has_the_private_names_in_use() -> None:
    consumer = inspect.getsource(AIOKafkaConsumer.__init__)
    assert "self._client = AIOKafkaClient(" in consumer
    assert list(inspect.signature(AIOKafkaClient.send).parameters)[1:3] == ["node_id", "request"]
    assert callable(AIOKafkaClient.force_metadata_update)
