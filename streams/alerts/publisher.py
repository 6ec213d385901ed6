"""Publish alerts to the topic `alerts`, through the producer of a Faust app."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from accountant.records import encode
from accountant.views.datasets import Alert
from streams.alerts.delivery_metrics import AlertDeliveryMetrics
from streams.alerts.pending_alerts import DueAlert, PendingAlerts
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)

ALERTS_PER_TURN: Final = 100  # sent together, in one round trip
TURNS_AHEAD: Final = 4  # concurrent round trips: on a busy machine one takes long
_RETRY_S: Final = 1.0
_SENT_S: Final = 30.0


class AlertPublisher:
    """Publishes alerts that are not on the topic yet, and retries after failures.

    Args:
        app: a Faust app; the first alert starts its producer.
        topic: the name of the topic.
        owns: whether this worker is deciding a partition now.
        counts: counts each delivery.

    Attributes:
        pending: the alerts to send; its user reports the alerts that are on the topic.
    """

    def __init__(
        self, app: Any, topic: str, *, owns: Callable[[int], bool], counts: AlertDeliveryMetrics
    ) -> None:
        self.pending = PendingAlerts(owns)
        self._app = app
        self._topic = app.topic(topic, key_serializer="raw", value_serializer="raw")
        self._counts = counts
        self._crossed = asyncio.Event()
        self._turns = asyncio.Semaphore(TURNS_AHEAD)
        self._starting = asyncio.Lock()
        self._sending: set[asyncio.Task[None]] = set()
        counts.waiting["topic"] = lambda: len(self.pending)

    def take(self, partition: int, alerts: Iterable[Alert]) -> None:
        """Add alerts about thresholds that were reached."""
        if self.pending.take(partition, alerts):
            self._crossed.set()

    async def run(self) -> None:
        """Send due alerts until cancelled."""
        try:
            while True:
                await self._turns.acquire()
                due = await self._due()
                task = asyncio.create_task(self._turn(due))
                self._sending.add(task)
                task.add_done_callback(self._sending.discard)
        finally:
            for task in self._sending:
                task.cancel()

    async def _due(self) -> Sequence[DueAlert]:
        """Return the due alerts; wait until there are some."""
        while not (due := self.pending.due(ALERTS_PER_TURN)):
            self._crossed.clear()
            # Another owner's alert becomes due after a while, or when its partition moves here.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RETRY_S):
                    await self._crossed.wait()
        return due

    async def _turn(self, due: Sequence[DueAlert]) -> None:
        try:
            if not await self._deliver(due):
                await asyncio.sleep(_RETRY_S)
        except Exception:
            _log.exception("alerts_not_delivered", then="retry")
            await asyncio.sleep(_RETRY_S)
        finally:
            self.pending.back(due)
            self._crossed.set()
            self._turns.release()

    async def _deliver(self, due: Sequence[DueAlert]) -> bool:
        """Send alerts together; return whether all are on the topic. The others stay pending."""
        app, producer = self._app, self._app.producer
        sent: list[tuple[Alert, Any]] = []
        trouble: BaseException | None = None
        try:
            async with asyncio.timeout(_SENT_S):
                async with self._starting:  # `started` is true as soon as the start begins
                    if not producer.started:
                        await app.add_runtime_dependency(producer)
                for partition, alert in due:
                    key, value = alert.alert_id.encode(), encode(alert)
                    sent.append(
                        (alert, await self._topic.send(key=key, value=value, partition=partition))
                    )
                await asyncio.wait([asyncio.ensure_future(each) for _, each in sent])
        except Exception as error:
            trouble = error
        for alert, answer in sent:
            answered = answer.done() and not answer.cancelled()
            if answered and answer.exception() is None:
                self.pending.published(alert)
                self._counts.add("topic", "delivered")
            else:
                self._counts.add("topic", "failed")
                trouble = trouble or (answer.exception() if answered else TimeoutError())
        if trouble is None:
            return True
        _log.warning("alerts_not_delivered", waiting=len(self.pending), why=repr(trouble))
        # A producer whose start failed stays `started` for ever: replace it, but only once.
        if app.producer is producer:
            app.producer = app.transport.create_producer(loop=app.loop, beacon=app.beacon)
            await app.remove_dependency(producer)
        return False
