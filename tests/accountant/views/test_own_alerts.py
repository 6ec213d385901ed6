"""Alerts of the process that decides are those of whoever reads its log."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from accountant.partition import Partition
from accountant.records import Decision, decode_decision
from accountant.records.encoded_decision import EncodedDecision
from accountant.replay.replay import Replay
from accountant.views.alerts import OwnAlerts, alerts_of_state
from accountant.views.datasets import Alert, DatasetView, alerts, fold_decision
from tests.accountant.histories import worlds
from tests.accountant.views.test_datasets import BASIC
from tests.accountant.world import World, opened
from tests.nightly import examples


def encoded(value: bytes) -> EncodedDecision:
    decision = decode_decision(value)
    return EncodedDecision(
        partition_sequence=decision.partition_sequence,
        outcome=decision.outcome,
        reason=decision.reason,
        dataset=decision.dataset,
        sequence=decision.sequence,
        decided_at=0,
        value=value,
        analyst=None,
        charged=None,
        crossed=bool(decision.crossed) or any(level.crossed for level in decision.levels),
        key=None,
        digest=b"",
    )


def state(world: World, count: int) -> Partition:
    refold = Replay(world.genesis, most_ids=world.most_ids)
    for value in world.log[:count]:
        refold.take_decision(value)
    return refold.finish()


def read(values: list[bytes]) -> list[Alert]:
    """Return the alerts of whoever reads a log, one decision after the other."""
    views: dict[str, DatasetView] = {}
    found: list[Alert] = []
    for decision in map(decode_decision, values):
        if decision.dataset is None:
            continue
        before = views.get(decision.dataset)
        after = fold_decision(before, decision)
        if after is not None:
            views[decision.dataset] = after
            found += alerts(before, after)
    return found


def in_order(found: list[Alert]) -> list[tuple[str, Alert]]:
    return sorted((alert.alert_id, alert) for alert in once(found))


def once(found: list[Alert]) -> list[Alert]:
    """Keep the first of each id: an amendment can take a threshold away and bring it back."""
    kept: dict[str, Alert] = {}
    for alert in found:
        kept.setdefault(alert.alert_id, alert)
    return list(kept.values())


@settings(max_examples=examples(100), deadline=None)
@given(worlds(), st.lists(st.integers(0, 1000), max_size=6))
def test_alerts_of_the_deciding_process_equal_those_of_a_reader_of_the_log(
    history: tuple[World, list[bytes]], cuts: list[int]
) -> None:
    world, _ = history
    values = world.log
    edges = [1, *sorted(1 + cut % len(values) for cut in cuts), len(values)]
    crossings = OwnAlerts()
    found = crossings.begin(state(world, 1))
    for begin, end in itertools.pairwise(edges):
        after = state(world, end)
        found += crossings.take([encoded(value) for value in values[begin:end]], after)
    assert in_order(found) == in_order(read(values))
    assert len(found) == len(once(found))


@settings(max_examples=examples(50), deadline=None)
@given(worlds(), st.integers(0, 1000))
def test_no_alert_is_lost_or_repeated_where_the_state_is_read_back_in_between(
    history: tuple[World, list[bytes]], cut: int
) -> None:
    world, _ = history
    values = world.log
    edge = 1 + cut % len(values)
    crossings = OwnAlerts()
    found = crossings.begin(state(world, edge))
    # The commit after it was made, but whoever decided never heard so.
    last = state(world, len(values))
    found += crossings.begin(last)
    assert len(found) == len(once(found))
    assert {alert.alert_id for alert in alerts_of_state(last)} <= {
        alert.alert_id for alert in found
    }
    assert crossings.begin(last) == []


def test_an_alert_has_the_time_and_the_ratio_of_its_own_decision() -> None:
    world = opened(**BASIC)
    for claim in ("pure:0.3", "pure:0.3", "pure:0.1", "pure:0.25"):
        world.now += 1000
        world.ask(claim)
    crossings = OwnAlerts()
    assert crossings.begin(state(world, 1)) == []
    found = crossings.take([encoded(value) for value in world.log[1:]], state(world, 6))
    crossing: list[Decision] = [each for each in world.decisions if each.crossed]
    assert [alert.alert_id for alert in found] == [
        "census/1/0.5", "census/1/0.8", "census/1/0.95",
    ]  # fmt: skip
    assert found[0].decided_at == crossing[0].decided_at
    assert found[0].spent_ratio == read(world.log)[0].spent_ratio
    assert 0.6 <= found[0].spent_ratio < 0.61


def test_an_amendment_can_cross_another_threshold_where_as_many_were_crossed_before() -> None:
    world = opened(**BASIC)
    world.ask("pure:0.6")
    crossings = OwnAlerts()
    assert [alert.threshold for alert in crossings.begin(world.state)] == ["0.5"]
    world.amend(alert_at=["0.3", "0.9"])
    found = crossings.take([encoded(world.log[-1])], world.state)
    assert [alert.alert_id for alert in found] == ["census/1/0.3"]
    world.amend(alert_at=["0.5"])
    assert crossings.take([encoded(world.log[-1])], world.state) == [], "reported before"


def test_a_threshold_that_goes_and_comes_back_within_a_commit_is_reported_once() -> None:
    world = opened(**BASIC)
    crossings = OwnAlerts()
    assert crossings.begin(world.state) == []
    world.ask("pure:0.6")
    for ratio in ("0.9", "0.5"):
        world.amend(alert_at=[ratio])
    found = crossings.take([encoded(value) for value in world.log[-3:]], world.state)
    assert [alert.alert_id for alert in found] == ["census/1/0.5"]
