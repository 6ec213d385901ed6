"""A decision alone says which alerts it gives rise to, and all that they show."""

from __future__ import annotations

from hypothesis import given, settings

from accountant.records import Decision, decode_decision
from accountant.records.header import decode_header
from accountant.replay.follow import FollowedPartition
from accountant.views.alerts import alerts_of
from accountant.views.datasets import Alert, DatasetView, alerts, view_of_ledger
from tests.accountant.histories import worlds
from tests.accountant.views.test_datasets import BASIC
from tests.accountant.world import World, opened


def alerts_of_states(world: World) -> list[list[Alert]]:
    """Return the alerts of each decision by its dataset's view before it and after it."""
    followed = FollowedPartition.from_beginning(world.genesis)
    views: dict[str, DatasetView] = {}
    found: list[list[Alert]] = []
    for value in world.log:
        found.append([])
        line = decode_header(value)
        followed.take(line, value)
        name = line.dataset or ""
        if name in followed.state.ledgers:
            after = view_of_ledger(followed.state.ledgers[name])
            found[-1] += alerts(views.get(name), after)
            views[name] = after
    return found


@settings(max_examples=150, deadline=None)
@given(worlds())
def test_each_decision_has_the_alerts_of_whoever_follows_the_state(
    history: tuple[World, list[bytes]],
) -> None:
    values = history[0].log
    own = [alerts_of(decode_decision(value)) for value in values]
    assert own == alerts_of_states(history[0])
    assert own == [alerts_of(decode_header(value)) for value in values]


def test_an_alert_has_the_time_and_the_ratio_of_its_own_decision() -> None:
    world = opened(**BASIC)
    for claim in ("pure:0.3", "pure:0.3", "pure:0.1", "pure:0.25"):
        world.now += 1000
        world.ask(claim)
    crossing: list[Decision] = [each for each in world.decisions if each.crossed]
    first, *others = [alert for each in crossing for alert in alerts_of(each)]
    assert [first.alert_id, *[each.alert_id for each in others]] == [
        "census/1/0.5", "census/1/0.8", "census/1/0.95",
    ]  # fmt: skip
    assert first.decided_at == crossing[0].decided_at
    assert 0.6 <= first.spent_ratio < 0.61


def thresholds(decision: Decision) -> list[str]:
    return [alert.threshold for alert in alerts_of(decision)]


def test_an_amendment_reports_the_reached_thresholds_that_no_decision_has() -> None:
    world = opened(**BASIC)
    assert thresholds(world.ask("pure:0.6")) == ["0.5"]
    assert thresholds(world.amend(horizon="P9D")) == []
    amended = world.amend(alert_at=["0.1", "0.5", "0.9"])
    assert thresholds(amended) == ["0.1"]
    assert amended.spent_ratio is not None
    assert 0.6 <= amended.spent_ratio < 0.61
    assert thresholds(world.amend(alert_at=["0.3", "0.9"])) == ["0.3"]
    assert thresholds(world.ask("pure:0.31")) == ["0.9"]


def test_an_exhausted_dataset_reports_a_new_threshold_above_what_is_spent() -> None:
    world = opened(**{**BASIC, "alert_at": ["0.5"]})
    world.ask("pure:0.96")
    assert thresholds(world.ask("pure:0.5")) == []
    (alert,) = alerts_of(world.amend(alert_at=["0.5", "1"]))
    assert alert.threshold == "1"
    assert 0.96 <= alert.spent_ratio < 0.961
