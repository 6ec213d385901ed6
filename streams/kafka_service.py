"""A ledger on Kafka as a `Service`: what the gateway serves, and clients with a kafka:// URL."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from typing import Any, Final, Self

import msgspec
from aiokafka import AIOKafkaProducer

from accountant.clock import issued_at
from accountant.outcomes import Outcome
from accountant.partitioning import partition_of
from accountant.records import Decision, Snapshot, Source
from accountant.views import (
    DatasetView,
    UsageView,
    analyst_of,
    fold_decision,
    fold_snapshot,
    fold_usage,
)
from streams.clock import Clock, SystemClock
from streams.errors import Unavailable
from streams.kafka.errors import translating
from streams.kafka.tail import Tail
from streams.service import Answer, Readiness
from streams.topics import Deployment

MOST_PENDING: Final = 10_000
_RECENT: Final = 20_000
_MOST_INDEXED: Final = 200_000
_EVENTS_BEHIND: Final = 1_000
_ACK_S: Final = 10.0
_STOP_S: Final = 1.0

_FINAL: Final = frozenset(
    {Outcome.GRANTED, Outcome.REFUSED, Outcome.OPENED, Outcome.AMENDED, Outcome.CLOSED}
)
Place = tuple[int, str, int]
"""Partition, input, offset."""


class _Who(msgspec.Struct):
    request_id: str
    dataset: str
    analyst: str = ""
    by: str = ""


_decode_who = msgspec.json.Decoder(_Who).decode


class KafkaService:
    """Appends bodies with acks=all and answers from a read-committed tail of the decisions.

    Started by `start`, which returns once the tail follows every partition: a decision made
    after an append is then never missed.
    """

    def __init__(self, deployment: Deployment, *, clock: Clock | None = None) -> None:
        self._deployment = deployment
        self._clock = clock or SystemClock()
        self._producer: Any = None
        self._pending: dict[Place, asyncio.Future[bytes]] = {}
        self._recent: OrderedDict[Place, bytes] = OrderedDict()
        self._index: OrderedDict[tuple[str, str, str], bytes] = OrderedDict()
        self._views: dict[str, DatasetView] = {}
        self._usage: dict[tuple[str, str], UsageView] = {}
        self._subscribers: set[_Subscriber] = set()
        self._tail = Tail(
            deployment,
            on_snapshot=self._take_snapshot,
            on_decisions=self._take_decisions,
            history_ms=deployment.window_ms,
            clock=clock,
        )
        self._following: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, deployment: Deployment, *, wait: float = 30.0) -> Self:
        """Return a service that is connected and follows the decisions.

        Raises: Unavailable: the broker did not answer within `wait` seconds.
        """
        service = cls(deployment)
        try:
            async with asyncio.timeout(wait):
                await service.connect()
        except TimeoutError as error:
            await service.close()
            why = service._tail.trouble or "it does not take in requests"
            what = f"{deployment.bootstrap} does not answer within {wait:g} s: {why}"
            raise Unavailable(what) from error
        except BaseException:
            await service.close()
            raise
        return service

    async def connect(self) -> None:
        """Follow the decisions, then allow appends."""
        self._following = asyncio.create_task(self._tail.run(), name="tail")
        caught_up = asyncio.create_task(self._tail.caught_up())
        try:
            await asyncio.wait({caught_up, self._following}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            caught_up.cancel()
        if self._following.done():
            self._following.result()
        await self._produce()

    async def _produce(self) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._deployment.bootstrap,
            acks="all",
            enable_idempotence=True,
            request_timeout_ms=8_000,
            retry_backoff_ms=50,
            linger_ms=0,
        )
        with translating():
            try:
                await producer.start()
            except BaseException:
                with contextlib.suppress(Exception):
                    async with asyncio.timeout(_STOP_S):
                        await producer.stop()
                raise
        self._producer = producer

    async def submit(self, source: Source, body: bytes, *, wait: float) -> Answer:
        dataset = _decode_who(body).dataset
        partition = partition_of(dataset.encode(), self._deployment.partitions)
        if self._producer is None or self._tail.trouble:
            raise Unavailable(self._tail.trouble or "not connected: retry with the same bytes")
        if len(self._pending) >= MOST_PENDING:
            raise Unavailable(f"{MOST_PENDING} requests wait already: retry with the same bytes")
        with translating():
            async with asyncio.timeout(_ACK_S):
                metadata = await self._producer.send_and_wait(
                    self._deployment.topics.of(source),
                    value=body,
                    key=dataset.encode(),
                    partition=partition,
                )
        place: Place = partition, source, metadata.offset
        decision = self._recent.get(place)
        if decision is None and wait > 0:
            decision = await self._answer(place, wait)
        return Answer(decision=decision, partition=partition, offset=metadata.offset)

    async def _answer(self, place: Place, wait: float) -> bytes | None:
        future = asyncio.get_running_loop().create_future()
        self._pending[place] = future
        try:
            async with asyncio.timeout(wait):
                return bytes(await future)
        except TimeoutError:
            return None
        finally:
            self._pending.pop(place, None)

    async def find(self, dataset: str, who: str, request_id: str) -> bytes | None:
        return self._index.get((dataset, who, request_id))

    async def datasets(self) -> list[DatasetView]:
        return [view for _, view in sorted(self._views.items())]

    async def dataset(self, name: str) -> DatasetView | None:
        return self._views.get(name)

    async def usage(self, dataset: str) -> list[UsageView]:
        return [view for (name, _), view in sorted(self._usage.items()) if name == dataset]

    async def events(self) -> AsyncIterator[Decision]:
        subscriber = _Subscriber()
        self._subscribers.add(subscriber)
        try:
            while True:
                yield await subscriber.next()
        finally:
            self._subscribers.discard(subscriber)

    def readiness(self) -> Readiness:
        reasons = [] if self._tail.trouble is None else [self._tail.trouble]
        return Readiness(ready=not reasons, reasons=reasons)

    async def close(self) -> None:
        following, self._following = self._following, None
        if following is not None:
            following.cancel()
            # A client that is busy reaching a broker that is away may not hear of it at once.
            await asyncio.wait([following], timeout=_STOP_S)
        producer, self._producer = self._producer, None
        if producer is not None:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(5):
                    await producer.stop()
        for future in self._pending.values():
            if not future.done():
                future.set_exception(Unavailable("closing: retry with the same bytes"))

    async def _take_snapshot(self, _partition: int, row: Snapshot) -> None:
        self._views[row.dataset] = fold_snapshot(self._views.get(row.dataset), row)

    async def _take_decisions(self, partition: int, batch: list[tuple[bytes, Decision]]) -> None:
        for value, decision in batch:
            self._take(partition, value, decision)
        while len(self._recent) > _RECENT:
            self._recent.popitem(last=False)
        self._forget_old()

    def _take(self, partition: int, value: bytes, decision: Decision) -> None:
        source = decision.source
        if source is None:
            return
        place: Place = partition, source.topic, source.offset
        self._recent[place] = value
        future = self._pending.get(place)
        if future is not None and not future.done():
            future.set_result(value)
        name = decision.dataset
        if name is not None:
            view = fold_decision(self._views.get(name), decision)
            if view is not None:
                self._views[name] = view
            analyst = analyst_of(decision)
            if analyst is not None:
                used = fold_usage(self._usage.get((name, analyst)), decision)
                if used is not None:
                    self._usage[name, analyst] = used
        if decision.outcome in _FINAL:
            who = _decode_who(bytes(decision.request))
            self._index[who.dataset, who.analyst or who.by, who.request_id] = value
        for subscriber in self._subscribers:
            subscriber.put(decision)

    def _forget_old(self) -> None:
        """Keep the index to the window: what is older is only in the log."""
        oldest = self._clock.now() - self._deployment.window_ms
        while self._index:
            key = next(iter(self._index))
            recent = (issued_at(key[2]) or 0) >= oldest
            if recent and len(self._index) <= _MOST_INDEXED:
                return
            del self._index[key]


class _Subscriber:
    """A bounded queue of events; the oldest are lost where nobody reads."""

    def __init__(self) -> None:
        self._events: deque[Decision] = deque(maxlen=_EVENTS_BEHIND)
        self._filled = asyncio.Event()

    def put(self, decision: Decision) -> None:
        self._events.append(decision)
        self._filled.set()

    async def next(self) -> Decision:
        while not self._events:
            self._filled.clear()
            await self._filled.wait()
        return self._events.popleft()
