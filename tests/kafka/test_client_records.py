"""Our unpacking of records gives the client's results, on a real broker."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition

from streams.kafka.deployment import Deployment, TopicNames
from streams.kafka.log import topics
from streams.kafka.wire.fetch import getmany
from streams.testing import LocalBroker
from tests.patience import PATIENCE_S


def fields(record: Any) -> tuple[object, ...]:
    headers = [tuple(header) for header in record.headers]
    return record.offset, record.timestamp, record.key, record.value, headers


async def read(bootstrap: str, tp: TopicPartition, end: int, *, ours: bool) -> list[Any]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False
    )
    found: list[Any] = []
    async with consumer, asyncio.timeout(PATIENCE_S):
        consumer.assign([tp])
        # 7 divides no batch: the rest of one comes with the next call.
        while await consumer.position(tp) < end:
            if ours:
                got: Any = await getmany(consumer, tp, timeout_ms=200, max_records=7)
            else:
                got = await consumer.getmany(tp, timeout_ms=200, max_records=7)
            found += got.get(tp, [])
    return found


async def test_unpacked_records_equal_those_of_the_client_library(
    broker: LocalBroker, application: str
) -> None:
    where = Deployment(
        bootstrap=broker.bootstrap,
        application=application,
        topics=TopicNames(f"{application}."),
        partitions=1,
    )
    await topics.create(where)
    tp = TopicPartition(where.topics.requests, 0)
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=20)
    writer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=application)
    async with producer, writer:
        for _ in range(3):
            sent = [
                await producer.send(tp.topic, value, key=key, partition=0, headers=headers)
                for key, value, headers in (
                    (b"k", b"v", []),
                    (None, b"v", [("name", b"text"), ("none", None)]),
                    (b"k", None, []),
                    (b"", b"", []),
                    *[(b"k", b"%d" % i, []) for i in range(20)],
                )
            ]
            await asyncio.gather(*sent)
            async with writer.transaction():
                await writer.send_and_wait(tp.topic, b"committed", partition=0)
            await writer.begin_transaction()
            await writer.send_and_wait(tp.topic, b"aborted", partition=0)
            await writer.abort_transaction()
    end = 3 * (24 + 2 * 2)  # a transaction's marker takes an offset, too
    theirs = await read(broker.bootstrap, tp, end, ours=False)
    mine = await read(broker.bootstrap, tp, end, ours=True)
    assert [fields(record) for record in mine] == [fields(record) for record in theirs]
    assert len(mine) == 3 * 26
    assert all(type(record) is ConsumerRecord for record in theirs)
    assert not any(type(record) is ConsumerRecord for record in mine)
