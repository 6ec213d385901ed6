"""Alerts of the levels of the partitions that this process decides.

Its state knows what each limit comes to, which no decision tells. Other workers find the same
crossings in the decisions, and send what the owner of a partition leaves untold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from accountant.partition import Partition
from accountant.views.alerts import limit_alerts_of_commit, limit_alerts_of_state
from accountant.views.datasets import Alert
from streams.logs import get_logger
from streams.processing.observers import Committed

_log = get_logger(__name__)

Tell = Callable[[int, Iterable[Alert]], None]
"""Takes a partition and what was crossed in it."""


def _tell_nobody(_partition: int, _alerts: Iterable[Alert]) -> None:
    return


class OwnLevels:
    """An observer that tells what a partition's state has crossed, then what each commit crosses.

    Attributes:
        tell: is told; nobody, until somebody sets it.
    """

    def __init__(self) -> None:
        self.tell: Tell = _tell_nobody

    def refolded(self, partition: Partition, seconds: float) -> None:
        self._try(partition, lambda: limit_alerts_of_state(partition))

    def committed(self, committed: Committed) -> None:
        partition = committed.partition
        run = [encoded for _, encoded in committed.records]
        self._try(partition, lambda: limit_alerts_of_commit(run, partition))

    def dropped(self, partition: int, error: BaseException | None) -> None:
        return

    def halted(self, partition: int, error: BaseException) -> None:
        return

    def _try(self, partition: Partition, found: Callable[[], list[Alert]]) -> None:
        number = partition.genesis.partition
        try:
            if alerts := found():
                self.tell(number, alerts)
        except Exception:
            # Admission is worth more than this, and the other workers look as well.
            _log.exception("levels_not_told", partition=number)
