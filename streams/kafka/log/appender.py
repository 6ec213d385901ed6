"""Append requests to their topics with acks=all, for gateways and clients."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka.errors import OutOfOrderSequenceNumber

from accountant.errors import BudgetError
from accountant.records import Source
from streams.error_words import meaning_of
from streams.errors import Refused, Unavailable
from streams.kafka.deployment import Deployment
from streams.kafka.log.topics import wrong_count
from streams.kafka.wire.connect_timeouts import with_short_connect
from streams.kafka.wire.errors import translate_errors
from streams.kafka.wire.reader import stop
from streams.telemetry.trace_context import current_exchange

_ACK_S: Final = 10.0
_STOP_S: Final = 1.0
_FLUSH_S: Final = 5.0
_BATCH_BYTES: Final = 65_536  # as long as the longest body, so every topic that takes one takes it


class KeyedBody(NamedTuple):
    """A body, and where it belongs."""

    body: bytes
    key: bytes
    partition: int


OnDone = Callable[[int | BudgetError], None]
"""Called with a body's offset once every in-sync replica has it, or with an error: the topic may
or may not hold the body then. Only its first call counts."""


class _WaitingBody(NamedTuple):
    record: KeyedBody
    headers: Sequence[Any]
    on_done: OnDone
    until: float


class _Lane:
    """The bodies that wait for one partition of an input, and the task that appends them."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.waiting: list[_WaitingBody] = []
        self.task: asyncio.Task[None] | None = None


class Appender:
    """Appends with one idempotent producer, and replaces it when the broker rejects its records."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._producer: Any = None
        self._renewing = asyncio.Lock()
        # One call at a time appends batches to a partition, so that calls stay in order.
        self._ordered = defaultdict[int, asyncio.Lock](asyncio.Lock)
        self._lanes = defaultdict[tuple[Source, int], _Lane](_Lane)

    async def start(self) -> None:
        """Connect.

        Raises: Refused: the setting differs from the number of partitions; Unavailable.
        """
        self._producer = producer = await self._produce()
        topic = self._deployment.topics.requests
        with translate_errors():
            wrong = wrong_count(self._deployment, topic, len(await producer.partitions_for(topic)))
        if wrong:  # otherwise requests would go to the wrong partitions
            raise Refused(wrong)

    async def _produce(self) -> AIOKafkaProducer:
        producer = with_short_connect(
            AIOKafkaProducer(
                **self._deployment.cluster.options(),
                acks="all",
                enable_idempotence=True,
                request_timeout_ms=8_000,
                retry_backoff_ms=50,
                linger_ms=0,
                max_batch_size=_BATCH_BYTES,
            )
        )
        with translate_errors():
            try:
                await producer.start()
            except BaseException:
                await stop(producer, within=_STOP_S)
                raise
        return producer

    def append(self, source: Source, record: KeyedBody, on_done: OnDone) -> None:
        """Append a body with the others that wait for its partition; returns at once.

        While one batch of a partition is under way, bodies gather for the next one. The record's
        headers say which HTTP request it came with, if it did.

        Args:
            on_done: called in this loop, later.
        """
        exchange = current_exchange()
        headers = [] if exchange is None else exchange.headers()
        lane = self._lanes[source, record.partition]
        lane.waiting.append(_WaitingBody(record, headers, on_done, lane.loop.time() + _ACK_S))
        if lane.task is None:
            lane.task = lane.loop.create_task(self._send_waiting(source, record.partition, lane))

    async def _send_waiting(self, source: Source, partition: int, lane: _Lane) -> None:
        """Append a partition's waiting bodies, batch by batch, until none is left."""
        taken: list[_WaitingBody] = []
        try:
            while lane.waiting:
                taken, lane.waiting = lane.waiting, []
                await self._send_bodies(self._deployment.topics.of(source), partition, taken)
        except BaseException as error:
            # Nothing may wait for ever, whatever is wrong; `on_done` takes the first call alone.
            unknown = Unavailable(f"{meaning_of(error)}: send the same bytes again")
            for each in [*taken, *lane.waiting]:
                each.on_done(unknown)
            lane.waiting = []
            raise
        finally:
            lane.task = None

    async def _send_bodies(self, topic: str, partition: int, bodies: list[_WaitingBody]) -> None:
        producer = self._producer
        if producer is None:
            for each in bodies:
                each.on_done(Unavailable("not connected: retry with the same bytes"))
            return
        records, headers = [each.record for each in bodies], [each.headers for each in bodies]
        for batch, first, count in _batches(producer, records, range(len(bodies)), headers):
            of_batch = bodies[first : first + count]
            try:
                offset = await self._send(producer, topic, batch, partition, of_batch[0].until)
            except BudgetError as error:
                for each in of_batch:
                    each.on_done(error)
            else:
                for i, each in enumerate(of_batch):
                    each.on_done(offset + i)

    async def append_many(
        self,
        source: Source,
        records: Sequence[KeyedBody],
        on_append: Callable[[int, int], None],
    ) -> dict[int, BudgetError]:
        """Append bodies as few batches of each partition, in their order within it.

        Args:
            on_append: called with a body's place among the records and its offset, once every
                in-sync replica has it.
        Returns: for the place of each body that the topic may or may not hold, the error.
        """
        producer, failed = self._producer, dict[int, BudgetError]()
        if producer is None:
            error = Unavailable("not connected: retry with the same bytes")
            return dict.fromkeys(range(len(records)), error)
        exchange = current_exchange()
        headers = [[] if exchange is None else exchange.headers()] * len(records)
        until = asyncio.get_running_loop().time() + _ACK_S
        by_partition: dict[int, list[int]] = {}
        for place, record in enumerate(records):
            by_partition.setdefault(record.partition, []).append(place)

        async def append(partition: int, places: list[int]) -> None:
            async with self._ordered[partition]:
                for batch, first, count in _batches(producer, records, places, headers):
                    try:
                        topic = self._deployment.topics.of(source)
                        offset = await self._send(producer, topic, batch, partition, until)
                    except BudgetError as error:
                        failed.update(dict.fromkeys(places[first : first + count], error))
                    else:
                        for i in range(count):
                            on_append(places[first + i], offset + i)

        await asyncio.gather(*[append(*each) for each in by_partition.items()])
        return failed

    async def _send(
        self, producer: Any, topic: str, batch: Any, partition: int, until: float
    ) -> int:
        """Append a batch; return the offset of its first record.

        Raises: as `append`.
        """
        try:
            with translate_errors():
                async with asyncio.timeout_at(until):
                    sent = await producer.send_batch(batch, topic, partition=partition)
                    first = int((await sent).offset)
        except Unavailable as error:
            if isinstance(error.__cause__, OutOfOrderSequenceNumber):
                await self._renew(producer)
            raise
        if first < 0:  # a duplicate that the broker has forgotten: the next offsets are of others
            raise Unavailable("the broker did not say where it is: send the same bytes again")
        return first

    async def _renew(self, spent: AIOKafkaProducer) -> None:
        """Replace the producer, unless another call has done so already.

        After a refused record (one too large, for example) the client still counts it, so the
        broker finds a gap in the sequence numbers and refuses all that follows.
        """
        async with self._renewing:
            if self._producer is spent:
                self._producer = await self._produce()
                await stop(spent, within=_STOP_S)

    async def stop(self) -> None:
        """Send the waiting requests, then close the producer. Safe to repeat."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await stop(producer, within=_FLUSH_S)


def _batches(
    producer: Any,
    records: Sequence[KeyedBody],
    places: Sequence[int],
    headers: Sequence[Sequence[Any]],
) -> Iterator[tuple[Any, int, int]]:
    """Yield batches of a partition's records; of each the place in `places`, and the count.

    Args:
        places: of the partition's records among all `records`.
        headers: of each of `records`.
    """
    batch, first = producer.create_batch(), 0
    for i, place in enumerate(places):
        record = records[place]
        added = {
            "timestamp": None,
            "key": record.key,
            "value": record.body,
            "headers": headers[place],
        }
        if batch.append(**added) is None:
            batch.close()
            yield batch, first, i - first
            batch, first = producer.create_batch(), i
            batch.append(**added)  # an empty batch takes a record of any size
    batch.close()
    yield batch, first, len(places) - first
