"""Alerts of a ledger whose every decision is at hand, as the process has that decides.

Its state says at once which datasets crossed anything; only their decisions are folded, by the
same fold as where decisions are all there is to read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from accountant.ledger import Ledger
from accountant.partition import Partition
from accountant.records.decided import Encoded
from accountant.views.datasets import Alert, Once, alerts, view_of_ledger
from accountant.views.follow import fold_alerts, runs
from accountant.views.level_alerts import crossed_in, crossed_of_state


class OwnAlerts:
    """Tells of each threshold once, whatever is begun or taken in again."""

    def __init__(self) -> None:
        self._ledgers: dict[str, Ledger] = {}
        self._told = Once()

    def begin(self, partition: Partition) -> list[Alert]:
        """Go on from a state that was read back; return what it has crossed, not told before."""
        self._ledgers = dict(partition.ledgers)
        return self._told.take(crossed(partition))

    def take(self, records: Sequence[Encoded], partition: Partition) -> list[Alert]:
        """Take in the decisions of one commit; return the thresholds that they crossed.

        Args:
            records: in the order of the log.
            partition: as the commit left it.
        """
        found: list[Alert] = []
        for name, run in runs(records).items():
            after = partition.ledgers.get(name)
            if after is None:
                continue
            before = self._ledgers.get(name)
            self._ledgers[name] = after
            if before is None or before.crossed != after.crossed or before.plan is not after.plan:
                view = None if before is None else view_of_ledger(before)
                found += fold_alerts(view, run)[1]
            if after.levels:
                found += crossed_in(run, partition)
        return self._told.take(found) if found else found


def crossed(partition: Partition) -> list[Alert]:
    """Return an alert for each threshold that a state has crossed; any thread may ask."""
    return crossed_ledgers(partition.ledgers.copy()) + crossed_of_state(partition)


def crossed_ledgers(ledgers: Mapping[str, Ledger]) -> list[Alert]:
    """Return an alert for each threshold that datasets themselves have crossed."""
    return [
        alert
        for ledger in ledgers.values()
        if ledger.crossed
        for alert in alerts(None, view_of_ledger(ledger))
    ]
