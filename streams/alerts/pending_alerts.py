"""The alerts that are not on the topic yet, and the worker that sends each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from accountant.views.datasets import Alert, SeenAlerts
from streams.clock import steady

OTHERS_WAIT_S: Final = 5.0
"""Seconds for which a worker leaves an alert to the owner of its partition."""

_TAKEN_S: Final = 60.0
"""Seconds after which an alert is handed out again if its attempt never ended."""


class DueAlert(NamedTuple):
    """An alert and the partition of its dataset."""

    partition: int
    alert: Alert


class _PendingAlert(NamedTuple):
    due: DueAlert
    since: float


class PendingAlerts:
    """The alerts about reached thresholds that are not on the topic yet.

    Every worker has all of them. The owner of a partition sends its alerts at once. Another worker
    sends an alert that is still missing a few seconds later: the owner was killed, or runs without
    a read side. So no alert is lost, whoever owns the partition, and few are sent twice.

    Args:
        owns: whether this worker is deciding a partition now.
        clock: seconds of a steady clock.
    """

    def __init__(
        self,
        owns: Callable[[int], bool],
        *,
        others_wait: float = OTHERS_WAIT_S,
        clock: Callable[[], float] = steady,
    ) -> None:
        self._owns = owns
        self._others_wait = others_wait
        self._clock = clock
        self._published = SeenAlerts()
        self._waiting: dict[str, _PendingAlert] = {}
        self._taken: dict[str, float] = {}  # by id: until when an alert stays handed out
        self._heard_since = 0.0
        self._partitions: set[int] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, partition: int, alerts: Iterable[Alert]) -> bool:
        """Add alerts; return whether any of them is still to be sent."""
        new = False
        self._partitions.add(partition)
        for alert in alerts:
            name = alert.alert_id
            if self._published.is_new(alert) and name not in self._waiting:
                self._waiting[name] = _PendingAlert(DueAlert(partition, alert), self._clock())
                new = True
        return new

    def published(self, alert: Alert) -> None:
        """Record that an alert is on the topic, whoever sent it."""
        self._published.add(alert)
        self._waiting.pop(alert.alert_id, None)
        self._taken.pop(alert.alert_id, None)

    def back(self, due: Iterable[DueAlert]) -> None:
        """End an attempt: its alerts that are not on the topic are due again."""
        for _, alert in due:
            self._taken.pop(alert.alert_id, None)

    def heard(self) -> None:
        """Record that the topic can be read again.

        Until now this worker did not know which alerts the owners had sent, so it waits from now.
        """
        self._heard_since = self._clock()

    def due(self, limit: int) -> list[DueAlert]:
        """Hand out the alerts that this worker must send now, the oldest first."""
        now = self._clock()
        left_to_owners = now - self._others_wait
        owned = {number for number in self._partitions if self._owns(number)}
        found: list[DueAlert] = []
        for name, (due, since) in self._waiting.items():
            if name in self._taken and now < self._taken[name]:
                continue
            late = max(since, self._heard_since) <= left_to_owners
            if late or due.partition in owned:
                self._taken[name] = now + _TAKEN_S
                found.append(due)
                if len(found) == limit:
                    break
        return found
