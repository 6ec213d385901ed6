"""Post an embedded ledger's alerts from its log to a webhook, one at a time, in the background."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from accountant.errors import LedgerFault
from accountant.partition import hash_of
from accountant.records import DECODE_ERRORS
from streams.alerts.alert_scan import AlertScan
from streams.alerts.delivery_metrics import AlertDeliveryMetrics
from streams.alerts.relayed_decisions import RelayedDecision, RelayedDecisions
from streams.alerts.webhook import AlertWebhook, Attempt, DeliveryAttempts, webhook_of
from streams.errors import Gone
from streams.log.decision_log import DecisionLog
from streams.settings import Settings
from streams.tasks.background import THREADS, Background
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)

_SLICE: Final = 500  # decisions that are read at a time
_LAST_S: Final = 2.0
"""Seconds that a closing process gives to the post in progress."""


class _Delivery(NamedTuple):
    """An alert to post, and the decision that is relayed with it, if it is that one's last."""

    attempts: DeliveryAttempts
    relayed: RelayedDecision | None


class Outbox:
    """Posts the alerts of the log in their order, each until it is accepted or given up.

    The log is the queue, so decisions never wait. After a restart this continues after the last
    decision whose alerts were delivered, as far as the log has that decision.

    Args:
        patience: seconds until this gives up an alert.
        background: calls the steps.
    """

    def __init__(
        self,
        webhook: AlertWebhook,
        log: DecisionLog,
        relayed: RelayedDecisions,
        counts: AlertDeliveryMetrics,
        *,
        patience: float,
        background: Background = THREADS,
    ) -> None:
        self._webhook = webhook
        self._log = log
        self._relayed = relayed
        self._counts = counts
        self._patience = patience
        self._scan: AlertScan | None = None  # None until the start is found
        self._next = 0
        self._last: RelayedDecision | None = None  # of those that were read
        self._decided = -1  # number of the last decision at the start
        self._ahead: deque[_Delivery] = deque()
        self._noted: dict[int, int] = {}  # alerts that are not read yet, by decision
        self._lock = threading.Lock()  # of `_next` and `_noted`
        self._due = 0.0
        self._loop = asyncio.new_event_loop()  # runs only during a post
        self._posting: asyncio.Task[Attempt] | None = None
        self._is_over = False
        self._steady = background.steady
        self._runner = background.runner(self, "alert-webhook")
        counts.waiting["webhook"] = lambda: len(self._ahead) + sum(self._noted.copy().values())

    def begin(self, decided: int) -> None:
        """Start, or look at the log again. Any thread.

        Args:
            decided: number of the log's last decision.
        """
        self._decided = decided
        self._runner.wake()

    def note(self, alerts: Mapping[int, int]) -> None:
        """Take note of committed decisions with alerts: their number by decision. Any thread."""
        with self._lock:
            self._noted |= {number: n for number, n in alerts.items() if number >= self._next}
        self._runner.wake()

    def close(self) -> None:
        """Stop within two seconds; alerts that still wait are posted after the next start."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._loop.call_later, _LAST_S, self._cancel)
        self._runner.stop()
        self._runner.join(None)
        self._loop.close()
        self._relayed.close()

    def step(self) -> float | None:
        """Post the next alert, if it is due."""
        delivery = self._first()
        if delivery is None:
            return None
        if (left := self._due - self._steady()) > 0:
            return left
        self._post(delivery)
        return 0

    def finish(self) -> None:
        """Post the waiting alerts, until one is not accepted or the time is up."""
        with contextlib.suppress(LedgerFault):
            while not self._is_over and self._due <= self._steady():
                delivery = self._first()
                if delivery is None:
                    self._remember_end()
                    break
                if not self._post(delivery):
                    break
        self._loop.run_until_complete(self._webhook.close())

    def _remember_end(self) -> None:
        """Remember the last decision, so that a start need not read those without alerts again."""
        if self._last is not None and self._last != self._relayed.last:
            self._relayed.add(self._last)

    def _first(self) -> _Delivery | None:
        """Return the first alert to post; read the log if none is known."""
        if self._scan is None:
            self._scan = self._find_start()
        count = _SLICE
        while not self._ahead and count == _SLICE:
            count = self._read(self._scan)
        return self._ahead[0] if self._ahead else None

    def _find_start(self) -> AlertScan:
        """Start after the newest relayed decision that the log has, else at the beginning."""
        self._last = self._relayed.newest_in(self._head_at)
        if self._last is not None:
            self._next = self._last.number + 1
            if self._last != self._relayed.last:
                _log.warning("log_is_another", then="alerts are sent from the fork", at=self._next)
        elif self._decided > 0:
            _log.warning("alerts_relayed_again", why="what was relayed is not known")
        return AlertScan(0, 0 if self._last is None else self._last.branch)

    def _head_at(self, number: int) -> str | None:
        with contextlib.suppress(Gone):
            for value in self._log.read(0, number, 1):
                return hash_of(value)
        return None

    def _read(self, scan: AlertScan) -> int:
        """Read the next decisions; return their number."""
        try:
            values = self._log.read(0, self._next, _SLICE)
        except Gone as error:
            sealed = self._log.seal(0)
            first = self._next if sealed is None else sealed[1].archived + 1
            _log.warning("alerts_in_archive", why=str(error), then="sent from there on", at=first)
            self._next = first
            return _SLICE
        for number, value in enumerate(values, self._next):
            try:
                alerts = scan.take(value)
            except (LedgerFault, *DECODE_ERRORS) as error:
                self._counts.add("webhook", "given_up")
                _log.error("alerts_of_unreadable_decision", number=number, why=str(error))
                alerts = []
            relayed = RelayedDecision(number, scan.branch, hash_of(value)) if alerts else None
            now, last = self._steady(), len(alerts) - 1
            for n, alert in enumerate(alerts):
                made = DeliveryAttempts(alert, self._counts, now=now, patience=self._patience)
                self._ahead.append(_Delivery(made, relayed if n == last else None))
            with self._lock:
                self._next = number + 1
                self._noted.pop(number, None)
        if values:
            self._last = RelayedDecision(self._next - 1, scan.branch, hash_of(values[-1]))
        return len(values)

    def _post(self, delivery: _Delivery) -> bool:
        """Try once; return whether the alert is accepted or given up."""
        self._posting = self._loop.create_task(self._webhook.post(delivery.attempts.alert))
        try:
            attempt = self._loop.run_until_complete(self._posting)
        except asyncio.CancelledError:  # the process ends
            return False
        pause = delivery.attempts.pause(attempt, self._steady())
        if pause is None:
            self._ahead.popleft()
            if delivery.relayed is not None:
                self._relayed.add(delivery.relayed)
        self._due = self._steady() + (pause or 0.0)
        return pause is None

    def _cancel(self) -> None:
        self._is_over = True
        if self._posting is not None:
            self._posting.cancel()


def outbox_of(
    path: Path,
    log: DecisionLog,
    settings: Settings,
    counts: AlertDeliveryMetrics,
    background: Background,
) -> Outbox | None:
    """Return the outbox of the ledger in a file; None without a webhook."""
    webhook = webhook_of(settings)
    if webhook is None:
        return None
    return Outbox(
        webhook,
        log,
        RelayedDecisions(path, hash_of(b"".join(log.read(0, 0, 1)))),
        counts,
        patience=settings.alert_webhook_patience_seconds,
        background=background,
    )
