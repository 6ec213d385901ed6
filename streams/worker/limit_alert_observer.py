"""Alerts about limits, again, when this process starts to decide a partition.

Decisions give rise to alerts wherever they are read. What a killed worker may not have sent, the
state of the partition repeats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from accountant.partition import Partition
from accountant.views.alerts import limit_alerts_of_state
from accountant.views.datasets import Alert
from streams.processing.observers import Committed
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)

Tell = Callable[[int, Iterable[Alert]], None]
"""Called with a partition and the alerts about thresholds reached in it."""


def _ignore_alerts(_partition: int, _alerts: Iterable[Alert]) -> None:
    return


class LimitAlertObserver:
    """An observer that reports the thresholds of limits that a partition's state has reached.

    Attributes:
        tell: called with the alerts; it does nothing by default.
    """

    def __init__(self) -> None:
        self.tell: Tell = _ignore_alerts

    def replayed(self, partition: Partition, seconds: float) -> None:
        number = partition.genesis.partition
        try:
            if alerts := [*limit_alerts_of_state(partition)]:
                self.tell(number, alerts)
        except Exception:
            # Admission matters more than alerts.
            _log.exception("limit_alerts_not_sent", partition=number)

    def committed(self, committed: Committed) -> None:
        return

    def dropped(self, partition: int, error: BaseException | None) -> None:
        return

    def halted(self, partition: int, error: BaseException) -> None:
        return
