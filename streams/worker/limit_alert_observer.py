"""Alerts about limits in the partitions that this process decides.

Only the owner's state knows the amount under each limit; decisions do not have it. Other workers
find the same thresholds in the decisions, and send the alerts that the owner does not send.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from accountant.partition import Partition
from accountant.records.encoded_decision import by_dataset
from accountant.views.alerts import limit_alerts_of_commit, limit_alerts_of_state
from accountant.views.datasets import Alert
from streams.logs import get_logger
from streams.processing.observers import Committed

_log = get_logger(__name__)

Tell = Callable[[int, Iterable[Alert]], None]
"""Called with a partition and the alerts about thresholds reached in it."""


def _ignore_alerts(_partition: int, _alerts: Iterable[Alert]) -> None:
    return


class LimitAlertObserver:
    """An observer that reports thresholds reached in a partition's state, then in each commit.

    Attributes:
        tell: called with the alerts; it does nothing by default.
    """

    def __init__(self) -> None:
        self.tell: Tell = _ignore_alerts

    def replayed(self, partition: Partition, seconds: float) -> None:
        self._report(partition, lambda: limit_alerts_of_state(partition))

    def committed(self, committed: Committed) -> None:
        partition = committed.partition
        run = by_dataset(encoded for _, encoded in committed.records)
        self._report(partition, lambda: limit_alerts_of_commit(run, partition))

    def dropped(self, partition: int, error: BaseException | None) -> None:
        return

    def halted(self, partition: int, error: BaseException) -> None:
        return

    def _report(self, partition: Partition, found: Callable[[], list[Alert]]) -> None:
        number = partition.genesis.partition
        try:
            if alerts := found():
                self.tell(number, alerts)
        except Exception:
            # Admission matters more than alerts, and the other workers check as well.
            _log.exception("limit_alerts_not_sent", partition=number)
