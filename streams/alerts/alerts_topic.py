"""The topic `alerts`: append alerts in their order, and read what is there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, Self

from aiokafka import AIOKafkaProducer, TopicPartition

from accountant.records import DECODE_ERRORS, encode
from accountant.views.datasets import Alert, decode_alert
from streams.error_words import words_of
from streams.kafka.deployment import Deployment
from streams.kafka.wire.connect_timeouts import with_short_connect
from streams.kafka.wire.errors import translate_errors
from streams.kafka.wire.fetch import UNREADABLE, read_on
from streams.kafka.wire.reader import consumer, stop
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)

FETCH_WAIT_MS: Final = 500
"""Of readers of few records: nobody waits for them."""
_BATCH_BYTES: Final = 1 << 18
_SENT_S: Final = 30.0
_READ_S: Final = 30.0


def decode_or_none(value: bytes | None) -> Alert | None:
    """Return the alert of a record; None for a record that is not an alert."""
    try:
        return decode_alert(value or b"")
    except DECODE_ERRORS:
        return None


class AlertTopicWriter:
    """Appends alerts to the topic, each batch once the one before it is acknowledged.

    Concurrent batches could be written out of order: one that fails would come after its
    successor. A batch whose acknowledgement is lost may be written twice.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._topic = deployment.topics.alerts
        self._producer: Any = with_short_connect(
            AIOKafkaProducer(
                **deployment.cluster.options(),
                acks="all",
                max_batch_size=_BATCH_BYTES,
                request_timeout_ms=10_000,
                retry_backoff_ms=100,
            )
        )

    async def __aenter__(self) -> Self:
        try:
            with translate_errors():
                await self._producer.start()
        except BaseException:
            await stop(self._producer)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await stop(self._producer)

    async def append(self, partition: int, alerts: Sequence[Alert]) -> tuple[int, int]:
        """Append alerts; return the offsets of the first and the last batch.

        Raises: JournalFault, Refused: none, some or all were written.
        """
        offsets = []
        with translate_errors():
            async with asyncio.timeout(_SENT_S):
                for batch in self._batches(alerts):
                    sent = await self._producer.send_batch(batch, self._topic, partition=partition)
                    offsets.append((await sent).offset)
        return offsets[0], offsets[-1]

    def _batches(self, alerts: Sequence[Alert]) -> list[Any]:
        made = [self._producer.create_batch()]
        for alert in alerts:
            record = {"key": alert.alert_id.encode(), "value": encode(alert), "timestamp": None}
            if made[-1].append(**record) is None:
                made.append(self._producer.create_batch())
                made[-1].append(**record)
        return made


async def alerts_on(deployment: Deployment, partition: int) -> list[Alert]:
    """Return the alerts on a partition of the topic, in their order.

    Raises: JournalFault, Refused: it cannot be read.
    """
    tp = TopicPartition(deployment.topics.alerts, partition)
    reader = consumer(deployment.cluster, committed=True)
    found: list[Alert | None] = []
    try:
        with translate_errors():
            async with asyncio.timeout(_READ_S) as limit:
                await reader.start()
                reader.assign([tp])
                position = (await reader.beginning_offsets([tp]))[tp]
                end = (await reader.end_offsets([tp]))[tp]
                reader.seek(tp, position)
                while position < end:
                    try:
                        got = await reader.getmany(timeout_ms=1_000)
                    except UNREADABLE as error:  # another client's record
                        _log.warning("alerts_read_raw", why=words_of(error))
                        got = await read_on(reader, {tp: position})
                    found += [decode_or_none(each.value) for each in got.get(tp, ())]
                    if (now := await reader.position(tp)) > position:
                        limit.reschedule(asyncio.get_running_loop().time() + _READ_S)
                    position = now
    finally:
        await stop(reader)
    return [alert for alert in found if alert is not None]
