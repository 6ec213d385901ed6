"""Find the alerts in one partition's log, decision after decision."""

from __future__ import annotations

from typing import Final

import msgspec

from accountant.records import decode_decision
from accountant.records.header import decode_header
from accountant.records.outcomes import Outcome
from accountant.versions import FORMAT
from accountant.views.alerts import alerts_of
from accountant.views.datasets import Alert, AlertOrigin

# Most decisions have no alert; to decode them all would take ten times as long.
_BEGIN: Final = b'{"type":"decision","version":%d,' % FORMAT
_CROSSED: Final = b'"crossed":['
_CUT: Final = b'"shares_cut":['
_PENDING: Final = b'"pending":{'
_ASKED: Final = b'"outcome":"%s"' % Outcome.MORE_ASKED.encode()
_ROLLBACK: Final = b'"rollback":'


def may_have_alerts(value: bytes) -> bool:
    """Tell by its bytes alone whether a record may have alerts.

    It names a threshold, a share that it cuts, a request that waits or did, or an ask.
    """
    return any(each in value for each in (_CROSSED, _CUT, _PENDING, _ASKED))


class AlertScan:
    """Reads the decisions of one partition in their order.

    Attributes:
        branch: how many rollbacks the log has accepted so far.
    """

    def __init__(self, partition: int, branch: int) -> None:
        self._partition = partition
        self.branch = branch

    def take(self, value: bytes) -> list[Alert]:
        """Return the alerts of the next decision; each names the decision.

        Raises: DECODE_ERRORS, MadeByOtherVersion: it cannot be read.
        """
        if value.startswith(_BEGIN) and _ROLLBACK not in value and not may_have_alerts(value):
            return []
        line = decode_header(value)
        if line.outcome is Outcome.ROLLED_BACK:
            rollback = decode_decision(value).rollback
            self.branch = self.branch if rollback is None else rollback.branch
        origin = AlertOrigin(
            partition=self._partition, number=line.partition_sequence, branch=self.branch
        )
        return [msgspec.structs.replace(alert, decision=origin) for alert in alerts_of(line)]
