"""Post an embedded ledger's alerts to a webhook, one at a time, in the background."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from accountant.partition import hash_of
from accountant.views.datasets import Alert
from streams.alerts.delivered_ids import DeliveredAlerts
from streams.alerts.delivery_metrics import AlertDeliveryMetrics
from streams.alerts.webhook import (
    AlertWebhook,
    Attempt,
    DeliveryAttempts,
    DeliveryResult,
    webhook_of,
)
from streams.settings import Settings
from streams.tasks.background import THREADS, Background

MAX_WAITING: Final = 10_000
_LAST_S: Final = 2.0
"""Seconds that a closing process gives to the post in progress."""


class Outbox:
    """Posts alerts in their order, each until it is accepted or given up.

    `put` returns at once, whatever the receiver does, so decisions never wait. After a restart,
    the undelivered alerts are put again: their thresholds are reached and their ids unknown.

    Args:
        crossed: returns the alerts of all reached thresholds; called when there is room again
            after an overflow.
        patience: seconds until this gives up an alert, until the next start.
        limit: the number of alerts that may wait.
        background: calls the steps.
    """

    def __init__(
        self,
        webhook: AlertWebhook,
        delivered: DeliveredAlerts,
        counts: AlertDeliveryMetrics,
        *,
        crossed: Callable[[], Iterable[Alert]],
        patience: float,
        limit: int = MAX_WAITING,
        background: Background = THREADS,
    ) -> None:
        self._webhook = webhook
        self._delivered = delivered
        self._counts = counts
        self._crossed = crossed
        self._patience = patience
        self._limit = limit
        self._waiting: dict[str, DeliveryAttempts] = {}  # by id, in the order of arrival
        self._overflowed = False
        self._lock = threading.Lock()
        self._due = 0.0
        self._loop = asyncio.new_event_loop()  # runs only during a post
        self._posting: asyncio.Task[Attempt] | None = None
        self._is_over = False
        self._steady = background.steady
        self._runner = background.runner(self, "alert-webhook")
        counts.waiting["webhook"] = lambda: len(self._waiting)

    def put(self, alerts: Iterable[Alert]) -> None:
        """Queue alerts, except those that are queued or delivered already. Any thread."""
        with self._lock:
            for alert in alerts:
                # Check `_waiting` first: `_post` records the delivery before it removes the alert
                # from the queue.
                if alert.alert_id in self._waiting or not self._delivered.is_new(alert):
                    continue
                if len(self._waiting) >= self._limit:
                    self._overflowed = True
                    break
                made = DeliveryAttempts(
                    alert, self._counts, now=self._steady(), patience=self._patience
                )
                self._waiting[alert.alert_id] = made
        self._runner.wake()

    def close(self) -> None:
        """Stop within two seconds; alerts that still wait are posted after the next start."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._loop.call_later, _LAST_S, self._cancel)
        self._runner.stop()
        self._runner.join(None)
        self._loop.close()
        self._delivered.close()

    def step(self) -> float | None:
        """Post the first waiting alert, if it is due."""
        with self._lock:
            first = next(iter(self._waiting.values()), None)
        if first is None:
            if not self._overflowed:
                return None
            self._overflowed = False
            self.put(self._crossed())
            return 0
        if (left := self._due - self._steady()) > 0:
            return left
        self._post(first)
        return 0

    def finish(self) -> None:
        """Post the waiting alerts, until one is not accepted or the time is up."""
        for attempts in [*self._waiting.values()]:
            if self._is_over or self._due > self._steady() or not self._post(attempts):
                break
        self._loop.run_until_complete(self._webhook.close())

    def _post(self, attempts: DeliveryAttempts) -> bool:
        """Try once; return whether the alert is accepted or given up."""
        self._posting = self._loop.create_task(self._webhook.post(attempts.alert))
        try:
            attempt = self._loop.run_until_complete(self._posting)
        except asyncio.CancelledError:  # the process ends
            return False
        if attempt.answer is DeliveryResult.DELIVERED:
            self._delivered.add(attempts.alert)
        pause = attempts.pause(attempt, self._steady())
        if pause is None:
            self._delivered.skip_until_restart(attempts.alert)
            del self._waiting[attempts.alert.alert_id]
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
    counts: AlertDeliveryMetrics,
    crossed: Callable[[], list[Alert]],
    background: Background,
) -> Outbox | None:
    """Return the outbox of the ledger in a file; None without a webhook.

    Args:
        first: returns decision 0.
        crossed: returns the alerts of all reached thresholds.
    """
    webhook = webhook_of(settings)
    if webhook is None:
        return None
    return Outbox(
        webhook,
        DeliveredAlerts(path, hash_of(first() or b"")),
        counts,
        crossed=crossed,
        patience=settings.alert_webhook_patience_seconds,
        background=background,
    )
