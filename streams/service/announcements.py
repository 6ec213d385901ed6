"""What a process that follows a ledger tells its subscribers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from accountant.records import Decision
from accountant.views.datasets import Alert
from streams.log.appended import Appended
from streams.tasks.broadcast import MAX_BEHIND, Broadcast


class Announcements:
    """Three streams of one ledger: its decisions, their bytes by place in the log, its alerts.

    Args:
        most_appended: of `appended`, how many a subscriber may lag behind.
    """

    def __init__(self, most_appended: int = MAX_BEHIND) -> None:
        self.decisions = Broadcast[Decision]()
        self.appended = Broadcast[Appended](most_appended)
        self.alerts = Broadcast[Alert]()

    @property
    def has_readers(self) -> bool:
        """Whether anybody subscribes."""
        return any(each.has_readers for each in (self.decisions, self.appended, self.alerts))

    def send(
        self,
        partition: int,
        first: int,
        values: Callable[[], Sequence[bytes]],
        decisions: Callable[[], Sequence[Decision]],
        alerts: Callable[[], Sequence[Alert]],
    ) -> None:
        """Send consecutive decisions of a partition.

        Args:
            first: the number of the first of them.
            values, decisions, alerts: each is called only where somebody subscribes to it.
        """
        if self.decisions.has_readers:
            self.decisions.send(decisions())
        if self.appended.has_readers:
            self.appended.send([Appended(partition, first, values())])
        if self.alerts.has_readers:
            self.alerts.send(alerts())

    def end(self) -> None:
        """End all subscriptions."""
        for each in (self.decisions, self.appended, self.alerts):
            each.end()
