from __future__ import annotations

from accountant.views.datasets import Alert
from streams.alerts import SeenAlerts


def alert(threshold: str) -> Alert:
    return Alert(
        alert_id=f"census/1/{threshold}",
        dataset="census",
        generation=1,
        threshold=threshold,
        spent_ratio=float(threshold),
        decided_at="2026-11-21T12:00:00.000Z",
    )


def test_an_alert_is_new_until_its_id_is_added() -> None:
    once = SeenAlerts()
    assert once.is_new(alert("0.5"))
    assert once.is_new(alert("0.5")), "what failed half-way is to be done again"
    once.add(alert("0.5"))
    assert not once.is_new(alert("0.5"))
    assert once.is_new(alert("0.8"))


def test_a_repeated_alert_in_one_call_is_new_once() -> None:
    once = SeenAlerts({"census/1/0.8"})
    half, most = alert("0.5"), alert("0.95")
    assert once.take([half, alert("0.8"), most, half]) == [half, most]
    assert once.take([half, most]) == []


def test_delivered_alerts_continue_from_stored_ids() -> None:
    first = SeenAlerts()
    first.add(alert("0.5"))
    again = SeenAlerts(first.ids)
    assert not again.is_new(alert("0.5"))
    again.add(alert("0.8"))
    assert first.ids == {"census/1/0.5"}
