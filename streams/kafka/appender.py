"""Append requests to their topics with acks=all, for gateways and clients."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import OutOfOrderSequenceNumber

from accountant.records import Source
from streams.errors import Refused, Unavailable
from streams.kafka.deployment import Deployment
from streams.kafka.topics import wrong_count
from streams.kafka.wire.connect_timeouts import with_short_connect
from streams.kafka.wire.errors import translate_errors
from streams.kafka.wire.reader import stop
from streams.trace_context import current_exchange

_ACK_S: Final = 10.0
_STOP_S: Final = 1.0
_FLUSH_S: Final = 5.0


class Appender:
    """Appends with one idempotent producer, and replaces it when the broker rejects its records."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._producer: Any = None
        self._renewing = asyncio.Lock()

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
            )
        )
        with translate_errors():
            try:
                await producer.start()
            except BaseException:
                await stop(producer, within=_STOP_S)
                raise
        return producer

    async def append(self, source: Source, body: bytes, *, key: bytes, partition: int) -> int:
        """Append a body; return its offset once every in-sync replica has it.

        The record's headers say which HTTP request it came with, if it did.

        Raises: JournalFault: the topic may or may not hold the body.
        """
        producer = self._producer
        if producer is None:
            raise Unavailable("not connected: retry with the same bytes")
        exchange = current_exchange()
        headers = None if exchange is None else exchange.headers()
        try:
            with translate_errors():
                async with asyncio.timeout(_ACK_S):
                    metadata = await producer.send_and_wait(
                        self._deployment.topics.of(source),
                        value=body,
                        key=key,
                        partition=partition,
                        headers=headers,
                    )
        except Unavailable as error:
            if isinstance(error.__cause__, OutOfOrderSequenceNumber):
                await self._renew(producer)
            raise
        return int(metadata.offset)

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
