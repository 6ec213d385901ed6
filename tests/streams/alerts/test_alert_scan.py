"""A scan of a log finds the alerts of each decision, though it decodes few of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from accountant.errors import MadeByNewerVersion
from accountant.partition.operate import accept_rollback
from accountant.records import decode_decision
from accountant.records.operator_records import Rollback
from accountant.views.alerts import alerts_of
from accountant.views.datasets import AlertOrigin
from streams.alerts.alert_scan import AlertScan
from streams.alerts.relay_start import gives_rise_to
from tests.accountant.histories import worlds
from tests.accountant.partition.test_approvals import Waiting
from tests.accountant.views.test_datasets import BASIC
from tests.accountant.world import World, opened


@settings(max_examples=50, deadline=None)
@given(worlds())
def test_a_scan_finds_the_alerts_of_every_decision(history: tuple[World, list[bytes]]) -> None:
    scan = AlertScan(0, 0)
    for number, value in enumerate(history[0].log):
        found = scan.take(value)
        assert [each.alert_id for each in found] == [
            each.alert_id for each in alerts_of(decode_decision(value))
        ]
        assert {each.decision for each in found} <= {
            AlertOrigin(partition=0, number=number, branch=0)
        }


def test_an_alert_after_a_rollback_names_the_new_branch() -> None:
    world = opened(**BASIC)
    world.ask("pure:0.6")
    world.commit()
    lost = Rollback(branch=7, first=3, last=5, head="", key="", signature="")
    world.took(accept_rollback(world.draft, world.now, "a test", lost))
    world.ask("pure:0.3")
    scan = AlertScan(2, 4)
    found = [each.decision for value in world.log for each in scan.take(value)]
    assert found == [
        AlertOrigin(partition=2, number=2, branch=4),
        AlertOrigin(partition=2, number=4, branch=7),
    ]


def test_a_share_that_a_release_made_elsewhere_cuts_has_an_alert() -> None:
    world = opened(filter="basic", epsilon="1")
    world.send("admin", world.admin("limit", scope="team", name="red", reserved="0.9"))
    release = {"claim": {"type": "pure", "epsilon": "0.3"}, "evidence": "table 3"}
    at = "2026-01-01T00:00:00.000Z"
    world.send("admin", world.admin("record", released_at=at, **release))
    assert world.encoded[-1].crossed, "whoever decides it looks for its alerts"
    scan = AlertScan(0, 0)
    alerts = [each for value in world.log for each in scan.take(value)]
    assert [alert.alert_id for alert in alerts] == ["census/1/level/team/red/1/cut/3"]
    (alert,) = alerts
    assert alert.cut == {"epsilon": "0.2", "delta": "0"}
    assert (alert.team, alert.version, alert.threshold) == ("red", 1, "")
    assert gives_rise_to(world.log[-1], [alert]), "as a start of the relay compares it"


def test_a_request_that_waits_has_an_alert_and_its_answer_has_one() -> None:
    world = Waiting()
    for kind in ("approve", "deny"):
        waiting = world.waits()
        assert world.encoded[-1].crossed, "whoever decides it looks for its alerts"
        world.answer(kind, waiting)
        assert world.encoded[-1].crossed
    world.answer("approve", waiting)  # refused: it is answered
    scan = AlertScan(0, 0)
    alerts = [each for value in world.log for each in scan.take(value)]
    assert [(alert.alert_id, alert.approval, alert.by) for alert in alerts] == [
        ("census/1/pending/2", "pending", None),
        ("census/1/approved/3", "approved", "olga"),
        ("census/1/pending/4", "pending", None),
        ("census/1/denied/5", "denied", "olga"),
    ]
    assert {(alert.analyst, alert.until, alert.threshold) for alert in alerts} == {
        ("ana", "2026-11-28T10:00:00.000Z", "")
    }
    (first,) = [value for value in world.log if b'"outcome":"pending"' in value][:1]
    assert gives_rise_to(first, [alerts[0]])
    assert not gives_rise_to(first, alerts[1:])


def test_a_decision_of_another_format_is_not_passed_unread() -> None:
    world = opened(**BASIC)
    with pytest.raises(MadeByNewerVersion):
        AlertScan(0, 0).take(world.log[1].replace(b'"version":2', b'"version":3', 1))
