"""An embedded ledger's alerts to a webhook, from a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from accountant.partition import hash_of
from accountant.views.datasets import Alert
from streams.alerts.counts import AlertCounts
from streams.alerts.delivered_ids import Delivered
from streams.alerts.webhook import Answer, Trying, Webhook, webhook_of
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
    """

    def __init__(
        self,
        webhook: Webhook,
        delivered: Delivered,
        counts: AlertCounts,
        *,
        crossed: Callable[[], Iterable[Alert]],
        patience: float,
        most: int = MOST_WAITING,
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
        self._loop = asyncio.new_event_loop()
        self._woken = asyncio.Event()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, name="alert-webhook", daemon=True)
        counts.waiting["webhook"] = lambda: len(self._waiting)

    def start(self) -> None:
        """Begin to post."""
        self._thread.start()

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
                made = Trying(alert, self._counts, now=time.monotonic(), patience=self._patience)
                self._waiting[alert.alert_id] = made
        self._call(self._woken.set)

    def close(self) -> None:
        """End; what waits is left for the next start, after two seconds at most."""
        self._call(self._stopping.set)
        if self._thread.ident is None:
            self._loop.close()
        else:
            self._thread.join()
        self._delivered.close()

    def _call(self, what: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(what)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._run())
        finally:
            self._loop.close()

    async def _run(self) -> None:
        posting = asyncio.create_task(self._post_all())
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({posting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({posting}, timeout=_LAST_S)
        for task in (posting, stopping):
            task.cancel()
        await asyncio.wait({posting, stopping})
        await self._webhook.close()

    async def _post_all(self) -> None:
        while True:
            with self._lock:
                first = next(iter(self._waiting.values()), None)
            if first is not None:
                if not await self._post(first):
                    return
                del self._waiting[first.alert.alert_id]
            elif self._overflown:
                self._overflown = False
                self.put(self._crossed())
            elif self._stopping.is_set():
                return
            else:
                self._woken.clear()
                await self._either(None)

    async def _post(self, trying: Trying) -> bool:
        """Post until taken or given up; False where the process ends before."""
        while True:
            tried = await self._webhook.post(trying.alert)
            if tried.answer is Answer.TAKEN:
                self._delivered.add(trying.alert)
            pause = trying.pause(tried, time.monotonic())
            if pause is None:
                self._delivered.leave_out(trying.alert)
                return True
            await self._rest(pause)
            if self._stopping.is_set():
                return False

    async def _rest(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    async def _either(self, timeout: float | None) -> None:
        """Return once alerts came or the end did."""
        waits = [asyncio.create_task(event.wait()) for event in (self._woken, self._stopping)]
        await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        for task in waits:
            task.cancel()


def outbox_of(
    path: Path,
    first: Callable[[], bytes | None],
    settings: Settings,
    counts: AlertCounts,
    crossed: Callable[[], list[Alert]],
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
    )
