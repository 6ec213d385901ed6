"""Post the topic `alerts` to a webhook: a consumer group, whose offsets mark delivered ones."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from aiokafka import ConsumerRecord, TopicPartition
from aiokafka import errors as kafka

from accountant.views.datasets import SeenAlerts
from streams.alerts.alerts_topic import decode_or_none
from streams.alerts.delivery_metrics import AlertDeliveryMetrics
from streams.alerts.group_consumer import group_consumer
from streams.alerts.webhook import AlertWebhook, DeliveryAttempts
from streams.clock import steady
from streams.error_words import words_of
from streams.errors import JournalFault, Refused
from streams.kafka.deployment import Deployment
from streams.kafka.wire.errors import translate_errors
from streams.kafka.wire.fetch import UNREADABLE, read_on
from streams.kafka.wire.reader import stop
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)

_RETRY_S: Final = 5.0
_AT_A_TIME: Final = 20  # each may take 10 s, and the group expects a poll within 300 s
_LOOK_MS: Final = 500
_MOVED: Final = (kafka.CommitFailedError, kafka.IllegalStateError)


class WebhookFeed:
    """Posts the alerts of the partitions that the group assigns to this worker, in their order.

    The topic is the queue: undelivered alerts stay there over restarts, and another worker takes
    over where this one ends. An alert that the receiver does not accept blocks its partition.

    Args:
        instance_id: of this worker, the same after a restart.
        patience: seconds until this gives up an alert.
    """

    def __init__(
        self,
        deployment: Deployment,
        webhook: AlertWebhook,
        counts: AlertDeliveryMetrics,
        *,
        instance_id: str,
        patience: float,
    ) -> None:
        self._deployment = deployment
        self._webhook = webhook
        self._counts = counts
        self._instance_id = instance_id
        self._patience = patience
        self._done = SeenAlerts()
        self._next: dict[TopicPartition, int] = {}
        self._lags: dict[TopicPartition, int] = {}
        # By partition: the offset and the attempts of the alert that was tried last.
        self._attempts: dict[TopicPartition, tuple[int, DeliveryAttempts]] = {}
        self._resting: dict[TopicPartition, float] = {}
        counts.waiting["webhook"] = lambda: sum(self._lags.copy().values())

    async def run(self) -> None:
        """Post until cancelled; reconnect after a lost connection."""
        try:
            while True:
                try:
                    await self._consume()
                except (JournalFault, Refused) as error:
                    _log.warning("webhook_interrupted", why=str(error))
                    await asyncio.sleep(_RETRY_S)
        finally:
            await self._webhook.close()

    async def _consume(self) -> None:
        group = f"{self._deployment.application}-webhook"
        # A group that is new, or was away for long, posts all again, under the same ids.
        consumer = group_consumer(self._deployment, group, f"{self._instance_id}-webhook")
        consumer.subscribe([self._deployment.topics.alerts])
        self._resting.clear()
        try:
            with translate_errors():
                await consumer.start()
            while True:
                self._resume_rested(consumer)
                with translate_errors():
                    got = await self._poll(consumer)
                for tp, records in got.items():
                    await self._post(consumer, tp, records)
                self._update_lags(consumer)
        finally:
            self._lags.clear()
            await stop(consumer)

    async def _poll(self, consumer: Any) -> dict[TopicPartition, list[ConsumerRecord]]:
        try:
            got: dict[TopicPartition, list[ConsumerRecord]] = await consumer.getmany(
                timeout_ms=_LOOK_MS, max_records=_AT_A_TIME
            )
        except UNREADABLE as error:
            # Another client's record, which must not silence the webhook.
            _log.warning("alerts_read_raw", why=words_of(error))
            tps = consumer.assignment() - self._resting.keys()
            begins = await consumer.beginning_offsets(list(tps))
            starts = {
                tp: max(self._next.get(tp, 0), await consumer.committed(tp) or 0, begins[tp])
                for tp in tps
            }
            got = await read_on(consumer, starts)
        return got

    def _resume_rested(self, consumer: Any) -> None:
        """Resume the partitions whose pause is over."""
        assigned = consumer.assignment()
        for tp, until in list(self._resting.items()):
            if tp not in assigned:
                del self._resting[tp]
            elif steady() >= until:
                del self._resting[tp]
                consumer.resume(tp)

    async def _post(
        self, consumer: Any, tp: TopicPartition, records: Sequence[ConsumerRecord]
    ) -> None:
        """Post records in their order; pause the partition before one that is not accepted."""
        for record in records:
            if tp not in consumer.assignment():
                return
            self._next[tp] = record.offset
            pause = await self._try_once(tp, record)
            if pause is not None:
                if tp in consumer.assignment():
                    consumer.seek(tp, record.offset)
                    consumer.pause(tp)
                    self._resting[tp] = steady() + pause
                return
            self._next[tp] = record.offset + 1
            try:
                with translate_errors():
                    await consumer.commit({tp: record.offset + 1})
            except JournalFault as error:
                if isinstance(error.__cause__, _MOVED):
                    return  # another worker has the partition now, and posts this alert again
                raise

    async def _try_once(self, tp: TopicPartition, record: ConsumerRecord) -> float | None:
        """Try a record once; return the pause before the next attempt, None if it is done."""
        alert = decode_or_none(record.value)
        if alert is None or not self._done.is_new(alert):
            return None
        offset, attempts = self._attempts.get(tp, (-1, None))
        if attempts is None or offset != record.offset:
            attempts = DeliveryAttempts(alert, self._counts, now=steady(), patience=self._patience)
            self._attempts[tp] = record.offset, attempts
        attempt = await self._webhook.post(alert)
        pause = attempts.pause(attempt, steady())
        if pause is None:
            self._done.add(alert)
            self._attempts.pop(tp, None)
        return pause

    def _update_lags(self, consumer: Any) -> None:
        """Update the number of waiting alerts; a paused partition keeps its last number."""
        self._lags = {
            tp: max(0, (consumer.highwater(tp) or 0) - self._next[tp])
            for tp in consumer.assignment() & self._next.keys()
        }
