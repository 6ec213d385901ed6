"""Who sends an alert, and when."""

from __future__ import annotations

from streams.alerts.pending_alerts import DueAlert, PendingAlerts
from tests.streams.alerts.test_delivered_ids import alert


class SteadyClock:
    """A steady clock that is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


HALF, MOST = alert("0.5"), alert("0.95")


def test_the_owner_sends_at_once_and_once() -> None:
    pending = PendingAlerts(lambda partition: partition == 3, clock=SteadyClock())
    assert pending.take(3, [HALF, MOST])
    assert pending.due(1) == [DueAlert(3, HALF)]
    assert pending.due(10) == [DueAlert(3, MOST)]
    assert pending.due(10) == [], "both are on their way"
    assert not pending.take(3, [HALF]), "it waits already"
    pending.published(HALF)
    assert not pending.take(3, [HALF]), "it is on the topic"
    assert len(pending) == 1


def test_an_alert_that_was_not_delivered_is_due_again() -> None:
    now = SteadyClock()
    pending = PendingAlerts(lambda _: True, clock=now)
    pending.take(0, [HALF, MOST])
    handed = pending.due(10)
    pending.published(HALF)
    pending.back(handed)
    assert pending.due(10) == [DueAlert(0, MOST)]
    now.seconds += 59
    assert pending.due(10) == []
    now.seconds += 1
    assert pending.due(10) == [DueAlert(0, MOST)], "whoever had it was never heard of again"


def test_an_alert_already_on_the_topic_is_not_sent() -> None:
    pending = PendingAlerts(lambda _: True, clock=SteadyClock())
    pending.published(HALF)
    assert not pending.take(0, [HALF])
    assert pending.due(10) == []


def test_others_send_an_owners_missing_alert_after_some_seconds() -> None:
    now = SteadyClock()
    pending = PendingAlerts(lambda _: False, others_wait=5, clock=now)
    pending.take(0, [HALF])
    now.seconds += 4.9
    assert pending.due(10) == []
    pending.take(1, [MOST])
    now.seconds += 0.1
    assert pending.due(10) == [DueAlert(0, HALF)]
    now.seconds += 4.9
    assert pending.due(10) == [DueAlert(1, MOST)]


def test_a_partition_that_moves_here_brings_its_alerts_at_once() -> None:
    owned: set[int] = set()
    pending = PendingAlerts(owned.__contains__, clock=SteadyClock())
    pending.take(2, [HALF])
    assert pending.due(10) == []
    owned.add(2)
    assert pending.due(10) == [DueAlert(2, HALF)]


def test_after_a_broker_outage_the_owner_has_the_first_turn_again() -> None:
    now = SteadyClock()
    pending = PendingAlerts(lambda _: False, others_wait=5, clock=now)
    pending.take(0, [HALF])
    now.seconds += 60
    pending.heard()
    assert pending.due(10) == []
    now.seconds += 5
    assert pending.due(10) == [DueAlert(0, HALF)]
