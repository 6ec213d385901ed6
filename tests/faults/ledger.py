"""A ledger on a broker as a test drives it: topics, requests that were acknowledged, a verdict."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

from aiokafka import AIOKafkaProducer

from accountant.partition import Partition
from accountant.partition.key_hash import partition_of
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.inputs import Input
from accountant.times import uuid7
from streams.kafka.deployment import Deployment, TopicNames
from streams.kafka.log import topics
from streams.processing.observers import Committed
from streams.worker.partitions import Worker
from tests.faults import oracle
from tests.faults.edges import Edges
from tests.faults.oracle import Follower, Place, Verdict
from tests.patience import PATIENCE_S


def new_id(at: int | None = None) -> str:
    """Return a request id issued at a time in milliseconds, by default now."""
    return uuid7(time.time_ns() // 1_000_000 if at is None else at, os.urandom(10))


def request(
    dataset: str,
    *,
    epsilon: str = "0.001",
    analyst: str = "ana",
    request_id: str | None = None,
    purpose: str = "",
    claim: dict[str, Any] | None = None,
    **more: str,
) -> bytes:
    """Return the body of a mechanism request, by default for a pure claim."""
    body = {
        "version": 1,
        "type": "request",
        "request_id": request_id or new_id(),
        "analyst": analyst,
        "dataset": dataset,
        "claim": claim or {"type": "pure", "epsilon": epsilon},
        "unit": "person",
        "neighbours": "add_remove",
        "purpose": purpose,
        **more,
    }
    return json.dumps(body).encode()


async def until(condition: Callable[[], object], what: str) -> None:
    """Return once a condition holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"after {PATIENCE_S:g} s still not: {what}"
        await asyncio.sleep(0.02)


async def rounds_pass(worker: Worker, count: int) -> None:
    """Return once a worker has checked its topics and its group so many times more."""
    for _ in range(count):
        before = worker.lags()  # each round makes a new list at its end
        await until(lambda last=before: worker.lags() is not last, "the worker's next round")


class Ledger:
    """A ledger's topics and the records sent to them.

    Args:
        bootstrap: of the broker itself.
        via: where the worker finds the broker; a proxy's address, say.
        options: of the `Deployment`.
    """

    def __init__(
        self, bootstrap: str, application: str, *, via: str | None = None, **options: Any
    ) -> None:
        self.bootstrap = bootstrap
        self.deployment = Deployment(
            bootstrap=via or bootstrap,
            application=application,
            topics=TopicNames(f"{application}."),
            **options,
        )
        self.acked: list[Place] = []
        self._edges: set[str] = set()
        self._producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            acks="all",
            linger_ms=2,
            max_request_size=1 << 20,
            # Also the time that a record waits for an absent broker, on a busy machine.
            request_timeout_ms=180_000,
        )
        self._followers: dict[str, Follower] = {}
        self._decisions: dict[Place, bytes] = {}
        self._parsed = 0

    async def __aenter__(self) -> Self:
        await topics.create(self.deployment)
        await self._producer.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._producer.stop()
        for follower in self._followers.values():
            follower.close()

    def topic(self, name: str) -> str:
        """Return the full name of a topic."""
        return self.deployment.topics.of(name)

    async def send(
        self,
        value: bytes | None,
        *,
        topic: str = "requests",
        key: bytes | None = None,
        partition: int | None = None,
    ) -> Place:
        """Append a record, by default to its dataset's partition; return its position."""
        return (await self.send_all([value], topic=topic, key=key, partition=partition))[0]

    async def send_all(
        self,
        values: Iterable[bytes | None],
        *,
        topic: str = "requests",
        key: bytes | None = None,
        partition: int | None = None,
    ) -> list[Place]:
        """Append records; once all are acknowledged, return their positions."""
        sent = []
        for value in values:
            name = key
            if name is None:
                name = self.deployment.key_of(json.loads(value or b"{}").get("dataset", ""))
            number = partition
            if number is None:
                number = partition_of(name, self.deployment.partitions)
            sent.append(
                await self._producer.send(
                    self.topic(topic), value, key=name or None, partition=number
                )
            )
        places: list[Place] = [
            (topic, metadata.partition, metadata.offset) for metadata in await asyncio.gather(*sent)
        ]
        self.acked += places
        return places

    async def open(self, *datasets: str, **policy: Any) -> list[Place]:
        """Open datasets, by default under epsilon 1, delta 1e-6."""
        return await self.send_all(
            (opening(dataset, **policy) for dataset in datasets), topic="admin"
        )

    async def ask(self, dataset: str, **fields: Any) -> Place:
        """Append one request."""
        return await self.send(request(dataset, **fields))

    async def settle(self) -> None:
        """Return once every input record has a visible decision."""
        await asyncio.to_thread(self._settle)

    def _settle(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            decided = self.visible() - self.deployment.partitions
            taken = sum(self._count(name, committed=False) for name in oracle.INPUTS)
            if decided >= taken >= len(self.acked):
                return
            assert time.monotonic() < deadline, f"{decided} of {taken} decided ({PATIENCE_S:g} s)"

    def visible(self) -> int:
        """Return the number of visible decisions, each genesis included."""
        return self._count("decisions", committed=True)

    def _count(self, name: str, *, committed: bool) -> int:
        if name not in self._followers:
            self._followers[name] = Follower(
                self.bootstrap, self.topic(name), self.deployment.partitions, committed=committed
            )
        follower = self._followers[name]
        follower.poll(0.1)
        return sum(follower.counts)

    async def decision(self, place: Place) -> dict[str, Any]:
        """Return the decision on an input record, once it is visible."""
        decision: dict[str, Any] = json.loads(await self.logged(place))
        return decision

    async def logged(self, place: Place) -> bytes:
        """Return the decision on an input record as the log has it, once it is visible."""
        deadline = time.monotonic() + PATIENCE_S
        while place not in self._decisions:
            await asyncio.to_thread(self.visible)
            values = self._followers["decisions"].values
            for value in values[self._parsed :]:
                source = source_of(value)
                if source is not None:
                    self._decisions[source["topic"], source["partition"], source["offset"]] = value
            self._parsed = len(values)
            assert time.monotonic() < deadline, f"{place} is not decided"
        return self._decisions[place]

    async def decided(self, body: bytes, **where: Any) -> dict[str, Any]:
        """Append a request and return the decision on it."""
        return await self.decision(await self.send(body, **where))

    async def judged(self, *, internal_errors: Collection[Place] = ()) -> Verdict:
        """Wait until every input is decided, and let the oracle judge the log.

        Args:
            internal_errors: inputs whose decision the test has made fail.
        """
        await self.settle()
        verdict = await asyncio.to_thread(
            oracle.judge,
            self.bootstrap,
            self.deployment.topics.prefix,
            self.deployment.partitions,
            internal_errors=internal_errors,
        )
        assert set(self.acked) <= verdict.by_place.keys()
        verdict.edges = self._edges
        return verdict

    def edges(self, *datasets: str, **fields: Any) -> Edges:
        """Return requests whose ids expire, or become due, during the next seconds.

        Their outcomes are left to the oracle: a test counts the others, `Verdict.plain`.
        """

        def make(at: int) -> bytes:
            made = new_id(at)
            self._edges.add(made)
            name = datasets[len(self._edges) % len(datasets)]
            return request(name, epsilon="0.00001", request_id=made, **fields)

        begun = time.time_ns() // 1_000_000
        window, skew = self.deployment.window_ms, self.deployment.skew_ms
        return Edges(make, begun, window=window, skew=skew)


def source_of(value: bytes) -> dict[str, Any] | None:
    """Return the position of a decision's input; None for a genesis and for a forged decision."""
    try:
        decision = json.loads(value)
    except ValueError:
        return None
    source: dict[str, Any] | None = decision.get("source")
    return source


def opening(dataset: str, **policy: Any) -> bytes:
    """Return the body that opens a dataset."""
    body = {
        "version": 1,
        "type": "open",
        "request_id": new_id(),
        "dataset": dataset,
        "by": "owner",
        "policy": policy or {"epsilon": "1", "delta": "1e-6"},
    }
    return json.dumps(body).encode()


class Watch:
    """An observer that records its calls.

    Attributes:
        refolded_of: how often each partition was read back.
    """

    def __init__(self) -> None:
        self.refolded_of = Counter[int]()
        self.reported: list[Place] = []
        self.errors: list[BaseException] = []
        self.halts: dict[int, BaseException] = {}

    def replayed(self, partition: Partition, seconds: float) -> None:
        self.refolded_of[partition.genesis.partition] += 1

    @property
    def refolds(self) -> int:
        """How often any partition was read back."""
        return self.refolded_of.total()

    @property
    def decided_of(self) -> Counter[int]:
        """How many inputs of each partition were reported as decided."""
        return Counter(partition for _, partition, _ in self.reported)

    def committed(self, committed: Committed) -> None:
        number = committed.partition.genesis.partition
        self.reported += [place_of(number, each) for each in committed.records]

    def dropped(self, partition: int, error: BaseException | None) -> None:
        if error is not None:
            self.errors.append(error)

    def halted(self, partition: int, error: BaseException) -> None:
        self.halts[partition] = error

    def saw(self, kind: type[BaseException]) -> int:
        """Return the number of drops of a partition by one kind of error."""
        return sum(isinstance(error, kind) for error in self.errors)


def place_of(partition: int, decided: tuple[Input, EncodedDecision]) -> Place:
    """Return the position of an input in a commit."""
    return decided[0].source, partition, decided[0].offset


@asynccontextmanager
async def working(
    ledger: Ledger,
    *,
    instance_id: str = "w1",
    ready: bool = True,
    settle: bool = True,
    **options: Any,
) -> AsyncIterator[Worker]:
    """Run a worker in this process, by default entered once it has decided all there is.

    What would halt a partition is looked at again sooner than by a worker of its own.
    """
    options.setdefault("looks_again", (0.5, 1.0))
    worker = Worker(ledger.deployment, instance_id=instance_id, **options)
    await worker.start()
    try:
        if ready:
            await until(lambda: is_ready(worker), "worker ready")
        if ready and settle:
            await ledger.settle()  # an opening may be read after a request on its dataset
        yield worker
    finally:
        await worker.stop()


def is_ready(worker: Worker) -> bool:
    """Return whether a worker serves partitions and nothing is wrong."""
    return bool(worker.status.serving) and worker.status.readiness().ready
