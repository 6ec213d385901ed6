from __future__ import annotations

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from accountant.decide import decide
from accountant.inputs import Input
from accountant.partition import Draft, Partition, genesis_decision
from accountant.records import Genesis
from accountant.refold import Refold
from streams.errors import Fenced, Unavailable
from streams.metrics import make_registry
from streams.metrics.standing import Standing
from streams.processor import Committed
from tests.streams.door import TestClock, opening, request


def partition(clock: TestClock) -> Partition:
    genesis = Genesis("accountant", 0, 1, 3_600_000, 300_000)
    refold = Refold(genesis)
    refold.take_decision(genesis_decision(genesis, clock.now()).value)
    return refold.finish()


def commit(standing: Standing, state: Partition, clock: TestClock, *bodies: object) -> None:
    draft, decided = Draft(state), []
    for body in bodies:
        value = msgspec.json.encode(body)
        source = "requests" if b'"request"' in value else "admin"
        record = Input(source, draft.next[source], None, value, clock.now() - 20)
        decided.append((record, decide(draft, record, clock.now())))
    draft.absorb()
    standing.committed(Committed(state, decided, 0.002))


@pytest.fixture
def standing(clock: TestClock) -> tuple[Standing, Partition, CollectorRegistry]:
    made, state = Standing(clock), partition(clock)
    made.refolded(state, 0.5)
    commit(made, state, clock, opening(clock), request(clock), request(clock))
    return made, state, make_registry(made)


Fixture = tuple[Standing, Partition, CollectorRegistry]


def test_a_dataset_whose_partition_moved_away_disappears(standing: Fixture) -> None:
    made, state, registry = standing
    labels = {"dataset": "census"}
    assert registry.get_sample_value("privacy_filter_spent_ratio", labels) is not None
    made.dropped(0, None)
    for name in ("privacy_filter_spent_ratio", "privacy_dataset_generation"):
        assert registry.get_sample_value(name, labels) is None
    assert registry.get_sample_value("privacy_partition_ready", {"partition": "0"}) is None
    counted = {"dataset": "census", "outcome": "granted", "reason": ""}
    assert registry.get_sample_value("privacy_requests_total", counted) is None
    made.refolded(state, 0.1)
    assert registry.get_sample_value("privacy_filter_spent_ratio", labels) is not None


def test_faults_and_fencings_are_counted_by_kind(standing: Fixture) -> None:
    made, state, registry = standing
    for error in (Unavailable("away"), Fenced("another"), Unavailable("away")):
        made.dropped(0, error)
        made.refolded(state, 0.1)
    value = registry.get_sample_value
    assert value("privacy_partition_fencings_total", {"partition": "0"}) == 1
    labels = {"partition": "0", "fault": "Unavailable"}
    assert value("privacy_partition_faults_total", labels) == 2
    assert value("privacy_partition_ready", {"partition": "0"}) == 1


def test_durations_are_counted_in_cumulative_buckets(standing: Fixture) -> None:
    _, _, registry = standing
    name = "privacy_decision_duration_seconds"
    assert registry.get_sample_value(f"{name}_bucket", {"le": "0.01"}) == 0
    assert registry.get_sample_value(f"{name}_bucket", {"le": "0.025"}) == 3
    assert registry.get_sample_value(f"{name}_bucket", {"le": "+Inf"}) == 3
    assert registry.get_sample_value("privacy_commit_duration_seconds_count") == 1


def test_views_are_of_the_last_commit(standing: Fixture, clock: TestClock) -> None:
    made, state, _ = standing
    view = made.datasets()["census"]
    assert (view.left["epsilon"], view.partition_sequence) == ("0.8", 3)
    commit(made, state, clock, request(clock))
    later = made.dataset("census")
    assert later is not None
    assert (later.left["epsilon"], later.outcomes["granted"]) == ("0.7", 3)
    assert [(used.analyst, used.granted) for used in made.usage("census")] == [("ana", 3)]
