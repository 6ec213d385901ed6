"""An owner's start reads every committed record, and nothing else."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaProducer, TopicPartition

from streams.kafka.wire.reader import StableReader
from streams.kafka.wire.security import Cluster
from streams.testing import LocalBroker
from tests.faults.ledger import Ledger


async def read(bootstrap: str, tp: TopicPartition) -> list[bytes | None]:
    async with StableReader(Cluster(bootstrap), [tp]) as reader:
        return [record.value async for record in reader.read(tp, reader.spans[tp].begin)]


async def test_a_stable_reader_waits_for_open_transactions_and_skips_aborted_ones(
    broker: LocalBroker, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        tp = TopicPartition(ledger.topic("dead_letters"), 0)
        async with AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap, transactional_id=f"{application}-x"
        ) as writer:
            await writer.begin_transaction()
            await writer.send_and_wait(tp.topic, b"aborted", partition=0)
            await writer.abort_transaction()
            async with writer.transaction():
                await writer.send_and_wait(tp.topic, b"committed", partition=0)
            async with writer.transaction():
                await writer.send_and_wait(tp.topic, b"open", partition=0)
                reading = asyncio.create_task(read(broker.bootstrap, tp))
                await asyncio.wait([reading], timeout=3)  # a reader that does not wait has ended
            assert await reading == [b"committed", b"open"]
