"""A broker, its topics, and a backlog of requests on them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable

from aiokafka import AIOKafkaProducer

from accountant.ledger.snapshots import snapshot
from accountant.partition import Partition
from accountant.partition.key_hash import partition_of
from accountant.records import encode
from accountant.records.encoded_decision import EncodedDecision
from benchmarks import requests
from streams.errors import Refused
from streams.kafka.deployment import Deployment, TopicNames
from streams.kafka.log import topics
from streams.processing.observers import Committed
from streams.testing import LocalBroker


class Counter:
    """An observer that counts what becomes visible.

    Attributes:
        decisions, transactions, bytes, rows: committed so far; rows of datasets only.
        row_bytes: length of one dataset's row, as last seen.
    """

    def __init__(self) -> None:
        self.decisions = self.transactions = self.bytes = self.rows = 0
        self.row_bytes = 0
        self.replayed_in: list[float] = []
        self.replayed_once = asyncio.Event()
        self._reached: list[tuple[int, asyncio.Event]] = []

    def replayed(self, partition: Partition, seconds: float) -> None:
        self.replayed_in.append(seconds)
        self.replayed_once.set()

    def committed(self, committed: Committed) -> None:
        records: list[EncodedDecision] = [encoded for _, encoded in committed.records]
        self.decisions += len(records)
        self.transactions += 1
        self.bytes += sum(len(encoded.value) for encoded in records)
        touched = {encoded.dataset for encoded in records}
        self.rows += len(touched)
        if not self.row_bytes:
            ledger = committed.partition.ledgers[str(touched.pop())]
            self.row_bytes = len(encode(snapshot(ledger)))
        for count, event in self._reached:
            if self.decisions >= count:
                event.set()

    def dropped(self, partition: int, error: BaseException | None) -> None:
        if error is not None:
            raise RuntimeError(f"partition {partition} was dropped") from error

    def halted(self, partition: int, error: BaseException) -> None:
        raise RuntimeError(f"partition {partition} halted") from error

    async def reach(self, count: int) -> None:
        """Return once so many decisions are visible."""
        event = asyncio.Event()
        self._reached.append((count, event))
        if self.decisions < count:
            await event.wait()


async def deploy(broker: LocalBroker, prefix: str, partitions: int) -> Deployment:
    """Create the topics of one application."""
    deployment = Deployment(
        bootstrap=broker.bootstrap,
        application=f"{prefix}bench",
        topics=TopicNames(prefix),
        partitions=partitions,
    )
    for _ in range(20):
        with contextlib.suppress(Refused):  # a new topic takes a moment to be known
            await topics.create(deployment)
            return deployment
        await asyncio.sleep(0.25)
    await topics.create(deployment)
    return deployment


@contextlib.asynccontextmanager
async def producer(bootstrap: str) -> AsyncIterator[AIOKafkaProducer]:
    """Yield an analyst's producer."""
    client = AIOKafkaProducer(
        bootstrap_servers=bootstrap, linger_ms=5, max_batch_size=1 << 18, acks="all"
    )
    await client.start()
    try:
        yield client
    finally:
        await client.stop()


async def append(deployment: Deployment, topic: str, bodies: Iterable[tuple[str, bytes]]) -> None:
    """Append (dataset, body) pairs, each to its dataset's partition, and wait for all."""
    partitions = deployment.partitions
    where: dict[str, int] = {}
    async with producer(deployment.bootstrap) as client:
        for dataset, body in bodies:
            key = dataset.encode()
            if dataset not in where:
                where[dataset] = partition_of(key, partitions)
            await client.send(topic, body, key=key, partition=where[dataset])
        await client.flush()


async def open_all(deployment: Deployment, datasets: Iterable[str]) -> None:
    """Append the opening of each dataset."""
    at = requests.now()
    bodies = [(name, requests.opening(name, at)) for name in datasets]
    await append(deployment, deployment.topics.admin, bodies)


async def ask_all(deployment: Deployment, datasets: list[str], count: int, seed: int) -> None:
    """Append `count` requests, spread evenly over the datasets."""
    at = requests.now()
    drawn = requests.any_of(datasets, seed, count)
    bodies = ((name, requests.request(name, at, i)) for i, name in enumerate(drawn))
    await append(deployment, deployment.topics.requests, bodies)
