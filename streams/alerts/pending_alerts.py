"""Which alerts are still to go to the topic, and which worker is to send them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from accountant.views.datasets import Alert, SeenAlerts
from streams.clock import steady

OTHERS_WAIT_S: Final = 5.0
"""How long a worker leaves an alert to the owner of its partition."""

_TAKEN_S: Final = 60.0
"""After which what was handed out and never heard of again is handed out once more."""


class Due(NamedTuple):
    """An alert and the partition of its dataset."""

    partition: int
    alert: Alert


class _Waiting(NamedTuple):
    due: Due
    since: float


class PendingAlerts:
    """Alerts that were seen to be crossed and not on the topic.

    Every worker keeps all of them. The owner of a partition sends its alerts at once; another
    one sends what is still missing a few seconds later: its owner was killed, or runs without
    a read side. So nothing is lost whoever owns what, and hardly anything is sent twice.

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
        self._waiting: dict[str, _Waiting] = {}
        self._taken: dict[str, float] = {}  # handed out, and until when that holds
        self._heard_since = 0.0
        self._partitions: set[int] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, partition: int, alerts: Iterable[Alert]) -> bool:
        """Take in what was crossed; tell whether any of it is still to be sent."""
        new = False
        self._partitions.add(partition)
        for alert in alerts:
            name = alert.alert_id
            if self._published.is_new(alert) and name not in self._waiting:
                self._waiting[name] = _Waiting(Due(partition, alert), self._clock())
                new = True
        return new

    def published(self, alert: Alert) -> None:
        """Note that an alert is on the topic, whoever sent it."""
        self._published.add(alert)
        self._waiting.pop(alert.alert_id, None)
        self._taken.pop(alert.alert_id, None)

    def back(self, due: Iterable[Due]) -> None:
        """Note that a try has ended: what of it is not on the topic is due again."""
        for _, alert in due:
            self._taken.pop(alert.alert_id, None)

    def heard(self) -> None:
        """Note that the topic can be read, after it could not.

        Until then nobody knew what its owner had sent: others wait from here on.
        """
        self._heard_since = self._clock()

    def due(self, most: int) -> list[Due]:
        """Hand out what this worker is to send now, at most so many, the oldest first."""
        now = self._clock()
        left_to_owners = now - self._others_wait
        owned = {number for number in self._partitions if self._owns(number)}
        found: list[Due] = []
        for name, (due, since) in self._waiting.items():
            if name in self._taken and now < self._taken[name]:
                continue
            late = max(since, self._heard_since) <= left_to_owners
            if late or due.partition in owned:
                self._taken[name] = now + _TAKEN_S
                found.append(due)
                if len(found) == most:
                    break
        return found
