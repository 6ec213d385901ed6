"""The Kafka adapter on a real broker, for the contract suite."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from accountant.records import Source
from streams.kafka.deployment import Deployment, TopicNames
from streams.kafka.log import topics
from streams.kafka.log.inbox import Inbox
from streams.kafka.log.journal import KafkaJournal
from streams.processing.journal import Journal
from tests.faults import oracle
from tests.streams.processing.contract import Harness, Visible, last_of


class KafkaHarness(Harness):
    """Topics of one partition, read back by another client library."""

    def __init__(self, bootstrap: str, application: str) -> None:
        self._deployment = Deployment(
            bootstrap=bootstrap,
            application=application,
            topics=TopicNames(f"{application}."),
            partitions=1,
        )
        self.genesis = self._deployment.genesis(0)
        self._journals: list[Journal] = []
        self._consumers: list[AIOKafkaConsumer] = []
        self._reading: list[asyncio.Task[None]] = []
        self._producer = AIOKafkaProducer(bootstrap_servers=bootstrap)

    async def start(self) -> None:
        """Create the topics."""
        await topics.create(self._deployment)
        await self._producer.start()

    async def make(self) -> Journal:
        names = self._deployment.topics
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._deployment.bootstrap,
            auto_offset_reset="none",
            enable_auto_commit=False,
            fetch_max_wait_ms=20,
        )
        self._consumers.append(consumer)
        await consumer.start()
        tps = [TopicPartition(name, 0) for name in (names.requests, names.admin)]
        consumer.assign(tps)
        for tp in tps:
            consumer.seek(tp, 0)
        consumer.pause(*tps)
        inbox = Inbox(consumer)
        self._reading.append(asyncio.create_task(inbox.run()))
        where = self._deployment
        journal = KafkaJournal(where.cluster, where.application, names, 0, inbox)
        self._journals.append(journal)
        return journal

    async def feed(self, source: Source, body: bytes) -> None:
        await self._producer.send_and_wait(self._deployment.topics.of(source), body, partition=0)

    async def visible(self) -> Visible:
        found = {}
        for topic in ("decisions", "state", "dead_letters"):
            name = self._deployment.topics.of(topic)
            found[topic] = oracle.read(self._deployment.bootstrap, name, 1)[0]
        return Visible(
            [record.value or b"" for record in found["decisions"]],
            last_of([(record.key or b"", record.value) for record in found["state"]]),
            [record.value or b"" for record in found["dead_letters"]],
        )

    async def close(self) -> None:
        for journal in self._journals:
            await journal.drop()
        for task in self._reading:
            task.cancel()
        for consumer in self._consumers:
            await consumer.stop()
        await self._producer.stop()
