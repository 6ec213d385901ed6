"""A topic as a sink for checkpoints, on the ledger's own cluster or on another one.

A record has the signed checkpoint as its value and no key. A compacted topic rejects such records,
so compaction can never remove one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka import errors as kafka
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from streams.clock import steady
from streams.errors import Refused, Unavailable
from streams.evidence.signed_checkpoint import SignedHead
from streams.evidence.sinks import Kind
from streams.kafka.wire.brokers import AWAY_S, Brokers
from streams.kafka.wire.errors import translate_error, translate_errors
from streams.kafka.wire.fetch import UNREADABLE, fetch
from streams.kafka.wire.reader import bounds, consumer, stop
from streams.kafka.wire.security import Cluster

WHOLE_S: Final = 10.0
_REQUEST_MS: Final = 5_000
_ALL_REPLICAS: Final = -1
_FORMAT: Final = 2
_MAX_BATCH_BYTES: Final = 16_384  # a signed checkpoint has at most 4,096 bytes
_STALLED_S: Final = 15.0
_CLIENT: Final = "accountant-checkpoints"
_UNREADABLE: Final = (*UNREADABLE, kafka.UnsupportedCodecError)
_INVALID_RECORD: Final = 87  # a code that the client library does not know


class Topic:
    """Appends each checkpoint to an existing topic, with acks from all replicas.

    It connects for each checkpoint: they are few, and an idle connection would be closed.

    Args:
        cluster: the brokers of the topic.
        topic: its name; this class never creates it.
        whole: seconds that an attempt may take.
    """

    kind: Kind = "topic"

    def __init__(self, cluster: Cluster, topic: str, *, whole: float = WHOLE_S) -> None:
        self.name = f"kafka://{cluster.bootstrap}/{topic}"
        self._cluster = cluster
        self._topic = topic
        self._whole = whole

    def put(self, checkpoint: SignedHead, note: bytes) -> str:
        """As `Sink.put`."""
        tp, offset = asyncio.run(self._append(checkpoint.partition, note))
        return f"{self.name}, partition {tp.partition}, offset {offset}"

    async def _append(self, number: int, note: bytes) -> tuple[TopicPartition, int]:
        with self._name_in_errors(), translate_errors():
            async with asyncio.timeout(self._whole), self._connected() as brokers:
                partitions = await self._partitions(brokers)
                tp = TopicPartition(self._topic, partitions[number % len(partitions)])
                brokers.learn({self._topic})
                while True:
                    node = await brokers.leader(tp)
                    error, offset = await self._append_once(brokers, node, tp, note)
                    if error is kafka.NoError:
                        return tp, offset
                    if not error.retriable:
                        raise error(tp)
                    await asyncio.sleep(AWAY_S)
                    await brokers.refresh()

    async def _partitions(self, brokers: Brokers) -> list[int]:
        found = await brokers.partitions_of(self._topic)
        if not found:
            raise Refused(
                "there is no such topic: create it with cleanup.policy=delete, retention.ms=-1 "
                "and retention.bytes=-1"
            )
        return found

    async def _append_once(
        self, brokers: Brokers, node: int, tp: TopicPartition, note: bytes
    ) -> tuple[type[kafka.KafkaError], int]:
        """Send one record. If the answer is lost, a second copy does no harm."""
        batch = DefaultRecordBatchBuilder(_FORMAT, 0, 0, -1, -1, -1, _MAX_BATCH_BYTES)
        batch.append(0, None, None, note, [])
        written = [(tp.topic, [(tp.partition, batch.build())])]
        try:
            answer = await brokers.ask(
                node, ProduceRequest(None, _ALL_REPLICAS, _REQUEST_MS, written)
            )
        except kafka.KafkaError as error:
            return type(error), -1
        ((_, ((_, code, offset, *_),)),) = answer.topics
        if code == _INVALID_RECORD:
            raise Refused("the topic is compacted: use one with cleanup.policy=delete")
        return kafka.for_code(code), offset

    def notes(self) -> Iterator[tuple[str, bytes]]:
        """As `ReadablePlace.notes`; the value of every record in the topic now.

        This includes open and aborted transactions: a signed checkpoint is evidence in any case,
        and an open transaction cannot make the reader wait.
        """
        yield from asyncio.run(self._all())

    async def _all(self) -> list[tuple[str, bytes]]:
        with self._name_in_errors():
            with translate_errors():
                async with asyncio.timeout(self._whole), self._connected() as brokers:
                    partitions = await self._partitions(brokers)
            client = consumer(self._cluster, committed=False)
            try:
                with translate_errors():
                    async with asyncio.timeout(self._whole):
                        await client.start()
                tps = [TopicPartition(self._topic, partition) for partition in partitions]
                client.assign(tps)
                found = []
                for tp, span in (await bounds(client, tps)).items():
                    found += [each async for each in _values(client, tp, span.begin, span.end)]
                return found
            finally:
                await stop(client)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Brokers]:
        brokers = Brokers(self._cluster, _CLIENT, _REQUEST_MS)
        try:
            await brokers.connect()
            yield brokers
        finally:
            brokers.close()
            closing = asyncio.all_tasks() - {asyncio.current_task()}
            if closing:
                await asyncio.wait(closing, timeout=1.0)

    @contextmanager
    def _name_in_errors(self) -> Iterator[None]:
        """Add the topic's name to errors."""
        try:
            yield
        except Unavailable as error:
            raise Unavailable(f"{self.name}: {error}") from error
        except Refused as error:
            raise Refused(f"{self.name}: {error}") from error


async def _values(
    client: Any, tp: TopicPartition, offset: int, end: int
) -> AsyncIterator[tuple[str, bytes]]:
    """Yield the value of each record before an end.

    Raises: Unavailable: the read stalls, or a batch cannot be read.
    """
    moved = steady()
    while offset < end:
        got = None
        try:
            got = await fetch(client, tp, offset)
        except _UNREADABLE as error:
            where = f"partition {tp.partition}: the records at offset {offset}"
            raise Unavailable(f"{where} cannot be read: {error}") from error
        except (kafka.KafkaError, TimeoutError, OSError) as error:
            is_final = isinstance(error, kafka.KafkaError) and not error.retriable
            if is_final or steady() - moved > _STALLED_S:
                raise translate_error(error) from error
        if got is None or got.next is None:
            if steady() - moved > _STALLED_S:
                raise Unavailable(f"partition {tp.partition}: no record at {offset}")
            await asyncio.sleep(AWAY_S)
            continue
        for record in got.records:
            if record.offset < end:
                yield f"partition {tp.partition}, offset {record.offset}", record.value or b""
        offset, moved = got.next, steady()
