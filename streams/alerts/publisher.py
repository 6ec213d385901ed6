"""Alerts to the topic `alerts`, sent through the producer of a Faust app."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from accountant.records import encode
from accountant.views.datasets import Alert
from streams.alerts.delivery_metrics import AlertCounts
from streams.alerts.pending_alerts import Due, PendingAlerts
from streams.logs import get_logger

_log = get_logger(__name__)

ALERTS_PER_TURN: Final = 100  # sent together, so that a round trip serves them all
TURNS_AHEAD: Final = 4  # round trips at a time: on a busy machine one alone takes long
_RETRY_S: Final = 1.0
_SENT_S: Final = 30.0


class AlertPublisher:
    """Sends what is crossed and not on the topic; what did not get there is tried again.

    Args:
        app: a Faust app, whose producer is started by the first alert.
        topic: the name of the topic.
        owns: whether this worker is deciding a partition now.
        counts: told of each delivery.

    Attributes:
        pending: what is still to be sent; to be told what is on the topic.
    """

    def __init__(
        self, app: Any, topic: str, *, owns: Callable[[int], bool], counts: AlertCounts
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
        """Take in what was crossed."""
        if self.pending.take(partition, alerts):
            self._crossed.set()

    async def run(self) -> None:
        """Send what is due, until cancelled."""
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

    async def _due(self) -> Sequence[Due]:
        """Return what is due; where nothing is, wait until something may be."""
        while not (due := self.pending.due(ALERTS_PER_TURN)):
            self._crossed.clear()
            # What is left to others becomes due by time alone, or as a partition moves here.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RETRY_S):
                    await self._crossed.wait()
        return due

    async def _turn(self, due: Sequence[Due]) -> None:
        try:
            if not await self._deliver(due):
                await asyncio.sleep(_RETRY_S)
        except Exception:
            _log.exception("alerts_not_delivered", then="tried again")
            await asyncio.sleep(_RETRY_S)
        finally:
            self.pending.back(due)
            self._crossed.set()
            self._turns.release()

    async def _deliver(self, due: Sequence[Due]) -> bool:
        """Send alerts together; tell whether all are on the topic. The others stay pending."""
        app, producer = self._app, self._app.producer
        sent: list[tuple[Alert, Any]] = []
        trouble: BaseException | None = None
        try:
            async with asyncio.timeout(_SENT_S):
                async with self._starting:  # it counts as started as soon as it begins to be
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
        # A producer whose start failed counts as started for ever: replace it, but only once.
        if app.producer is producer:
            app.producer = app.transport.create_producer(loop=app.loop, beacon=app.beacon)
            await app.remove_dependency(producer)
        return False
