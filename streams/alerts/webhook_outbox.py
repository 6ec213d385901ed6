"""An embedded ledger's alerts to a webhook: a task that posts one at a time."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from accountant.partition import hash_of
from accountant.views.datasets import Alert
from streams.alerts.delivery_metrics import AlertCounts
from streams.alerts.delivered_ids import Delivered
from streams.alerts.webhook import AlertWebhook, DeliveryResult, Tried, Trying, webhook_of
from streams.background import THREADS, Background
from streams.settings import Settings

MOST_WAITING: Final = 10_000
_LAST_S: Final = 2.0
"""How long a process that ends goes on with what it has begun."""


class Outbox:
    """Posts alerts in their order, each until it is taken or given up.

    `put` returns at once, whatever the receiver does: who decides never waits. What was not
    delivered when the process ends is put again by the next one, which finds it crossed and
    not remembered.

    Args:
        crossed: asked, once there is room again, for all that is crossed, where more came
            than may wait.
        patience: seconds after which an alert is given up, until the next start.
        most: how many may wait.
        background: calls the steps.
    """

    def __init__(
        self,
        webhook: AlertWebhook,
        delivered: Delivered,
        counts: AlertCounts,
        *,
        crossed: Callable[[], Iterable[Alert]],
        patience: float,
        most: int = MOST_WAITING,
        background: Background = THREADS,
    ) -> None:
        self._webhook = webhook
        self._delivered = delivered
        self._counts = counts
        self._crossed = crossed
        self._patience = patience
        self._most = most
        self._waiting: dict[str, Trying] = {}  # by id, in their order
        self._overflown = False
        self._lock = threading.Lock()
        self._due = 0.0
        self._loop = asyncio.new_event_loop()  # runs while something is posted
        self._posting: asyncio.Task[Tried] | None = None
        self._is_over = False
        self._steady = background.steady
        self._runner = background.runner(self, "alert-webhook")
        counts.waiting["webhook"] = lambda: len(self._waiting)

    def put(self, alerts: Iterable[Alert]) -> None:
        """Have alerts posted, those left out that were put or delivered before. Any thread."""
        with self._lock:
            for alert in alerts:
                # In this order: an alert is delivered before it ends to wait.
                if alert.alert_id in self._waiting or not self._delivered.is_new(alert):
                    continue
                if len(self._waiting) >= self._most:
                    self._overflown = True
                    break
                made = Trying(alert, self._counts, now=self._steady(), patience=self._patience)
                self._waiting[alert.alert_id] = made
        self._runner.wake()

    def close(self) -> None:
        """End; what waits is left for the next start, after two seconds at most."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._loop.call_later, _LAST_S, self._cancel)
        self._runner.stop()
        self._runner.join(None)
        self._loop.close()
        self._delivered.close()

    def step(self) -> float | None:
        """Post the first alert that waits, if its time has come."""
        with self._lock:
            first = next(iter(self._waiting.values()), None)
        if first is None:
            if not self._overflown:
                return None
            self._overflown = False
            self.put(self._crossed())
            return 0
        if (left := self._due - self._steady()) > 0:
            return left
        self._post(first)
        return 0

    def finish(self) -> None:
        """Post what waits, until one is not taken or the time is up."""
        for trying in [*self._waiting.values()]:
            if self._is_over or self._due > self._steady() or not self._post(trying):
                break
        self._loop.run_until_complete(self._webhook.close())

    def _post(self, trying: Trying) -> bool:
        """Try once; return whether the alert is taken or given up."""
        self._posting = self._loop.create_task(self._webhook.post(trying.alert))
        try:
            tried = self._loop.run_until_complete(self._posting)
        except asyncio.CancelledError:  # the process ends
            return False
        if tried.answer is DeliveryResult.DELIVERED:
            self._delivered.add(trying.alert)
        pause = trying.pause(tried, self._steady())
        if pause is None:
            self._delivered.leave_out(trying.alert)
            del self._waiting[trying.alert.alert_id]
        self._due = self._steady() + (pause or 0.0)
        return pause is None

    def _cancel(self) -> None:
        self._is_over = True
        if self._posting is not None:
            self._posting.cancel()


def outbox_of(
    path: Path,
    first: Callable[[], bytes | None],
    settings: Settings,
    counts: AlertCounts,
    crossed: Callable[[], list[Alert]],
    background: Background,
) -> Outbox | None:
    """Return the outbox of the ledger in a file, None without a webhook.

    Args:
        first: returns decision 0.
        crossed: returns the alerts of all thresholds that are crossed.
    """
    webhook = webhook_of(settings)
    if webhook is None:
        return None
    return Outbox(
        webhook,
        Delivered(path, hash_of(first() or b"")),
        counts,
        crossed=crossed,
        patience=settings.alert_webhook_patience_seconds,
        background=background,
    )
