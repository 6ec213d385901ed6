"""A decision alone says which alerts it gives rise to, and all that they show."""

from __future__ import annotations

from hypothesis import given, settings

from accountant.records import Decision, decode_decision
from accountant.records.header import decode_header
from accountant.views.alerts import alerts_of
from accountant.views.datasets import Alert, DatasetView, alerts, fold_decision
from tests.accountant.histories import worlds
from tests.accountant.views.test_datasets import BASIC
from tests.accountant.world import World, opened


def folded(values: list[bytes]) -> list[list[Alert]]:
    """Return the alerts of each decision by what a dataset's view was before it and after it."""
    views: dict[str, DatasetView] = {}
    found: list[list[Alert]] = []
    for decision in map(decode_decision, values):
        name = decision.dataset
        before = None if name is None else views.get(name)
        after = None if name is None else fold_decision(before, decision)
        found.append([])
        if name is not None and after is not None:
            views[name] = after
            found[-1] += alerts(before, after)
    return found


@settings(max_examples=150, deadline=None)
@given(worlds())
def test_each_decision_has_the_alerts_of_whoever_folds_the_log(
    history: tuple[World, list[bytes]],
) -> None:
    values = history[0].log
    own = [alerts_of(decode_decision(value)) for value in values]
    assert own == folded(values)
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
