from __future__ import annotations

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from accountant.dataset_ledger import DatasetLedger
from accountant.errors import LogDamaged
from accountant.partition import Partition
from accountant.partition.decide import decide
from accountant.partition.draft import Draft, genesis_decision
from accountant.records import Genesis
from accountant.records.inputs import Input
from accountant.replay.replay import Replay
from accountant.views.datasets import UNKNOWN
from accountant.views.usage import views_of
from streams.errors import Fenced, Unavailable
from streams.metrics.live_ledgers import LiveLedgers
from streams.metrics.registry import make_registry
from streams.processing.observers import Committed
from streams.service.live_views import LiveViews
from streams.worker.status import Status
from tests.streams.clock import TestClock
from tests.streams.gateway.records import opening, request


def partition(clock: TestClock) -> Partition:
    genesis = Genesis("accountant", 0, 1, 3_600_000, 300_000)
    refold = Replay(genesis)
    refold.take_decision(genesis_decision(genesis, clock.now()).value)
    return refold.finish()


def live_views(made: LiveLedgers) -> LiveViews:
    def ledger(name: str) -> DatasetLedger | None:
        return next(found for each in made._held.values() if (found := each.ledgers.get(name)))

    return LiveViews(lambda: [each.ledgers for each in made._held.values()], ledger, made)


def commit(
    live_ledgers: LiveLedgers | ObserverPair, state: Partition, clock: TestClock, *bodies: object
) -> None:
    draft, decided = Draft(state), []
    for body in bodies:
        value = body if isinstance(body, bytes) else msgspec.json.encode(body)
        source = "requests" if b'"request"' in value else "admin"
        record = Input(source, draft.next[source], None, value, clock.now() - 20)
        decided.append((record, decide(draft, record, clock.now())))
    draft.absorb()
    live_ledgers.committed(Committed(state, decided, 0.002))


@pytest.fixture
def live_ledgers(clock: TestClock) -> tuple[LiveLedgers, Partition, CollectorRegistry]:
    made, state = LiveLedgers(clock, usage=True), partition(clock)
    made.replayed(state, 0.5)
    commit(made, state, clock, opening(clock), request(clock), request(clock))
    return made, state, make_registry(made)


Fixture = tuple[LiveLedgers, Partition, CollectorRegistry]


def test_a_dataset_whose_partition_moved_away_disappears(live_ledgers: Fixture) -> None:
    made, state, registry = live_ledgers
    labels = {"dataset": "census"}
    assert registry.get_sample_value("privacy_filter_spent_ratio", labels) is not None
    made.dropped(0, None)
    for name in ("privacy_filter_spent_ratio", "privacy_dataset_generation"):
        assert registry.get_sample_value(name, labels) is None
    assert registry.get_sample_value("privacy_partition_ready", {"partition": "0"}) is None
    counted = {"dataset": "census", "outcome": "granted", "reason": ""}
    assert registry.get_sample_value("privacy_requests_total", counted) is None
    made.replayed(state, 0.1)
    assert registry.get_sample_value("privacy_filter_spent_ratio", labels) is not None


def test_faults_and_fencings_are_counted_by_kind(live_ledgers: Fixture) -> None:
    made, state, registry = live_ledgers
    for error in (Unavailable("away"), Fenced("another"), Unavailable("away")):
        made.dropped(0, error)
        made.replayed(state, 0.1)
    value = registry.get_sample_value
    assert value("privacy_partition_fencings_total", {"partition": "0"}) == 1
    labels = {"partition": "0", "fault": "Unavailable"}
    assert value("privacy_partition_faults_total", labels) == 2
    assert value("privacy_partition_ready", {"partition": "0"}) == 1


def test_durations_are_counted_in_cumulative_buckets(live_ledgers: Fixture) -> None:
    _, _, registry = live_ledgers

    def bucket(name: str, le: str) -> float | None:
        return registry.get_sample_value(f"{name}_bucket", {"partition": "0", "le": le})

    assert bucket("privacy_decision_duration_seconds", "0.01") == 0
    assert bucket("privacy_decision_duration_seconds", "0.025") == 3
    assert bucket("privacy_decision_duration_seconds", "+Inf") == 3
    assert bucket("privacy_commit_duration_seconds", "0.0025") == 1
    assert (bucket("privacy_commit_records", "2"), bucket("privacy_commit_records", "5")) == (0, 1)
    count = "privacy_commit_duration_seconds_count"
    assert registry.get_sample_value(count, {"partition": "0"}) == 1


def test_views_are_of_the_last_commit(live_ledgers: Fixture, clock: TestClock) -> None:
    made, state, _ = live_ledgers
    view = live_views(made).datasets()["census"]
    assert (view.left["epsilon"], view.partition_sequence) == ("0.8", 3)
    commit(made, state, clock, request(clock))
    later = live_views(made).dataset("census")
    assert later is not None
    assert (later.left["epsilon"], later.outcomes["granted"]) == ("0.7", 3)
    assert [(each.analyst, each.granted) for each in views_of("census", made.rows("census"))] == [
        ("ana", 3)
    ]


def test_unknown_datasets_share_one_series_for_good(
    live_ledgers: Fixture, clock: TestClock
) -> None:
    made, state, registry = live_ledgers
    for name in ("made-up", "another"):
        commit(made, state, clock, request(clock, dataset=name))
    nameless = {"dataset": "", "outcome": "refused", "reason": "unknown_dataset"}
    assert registry.get_sample_value("privacy_requests_total", nameless) == 2
    commit(made, state, clock, opening(clock, "made-up"))
    # A counter never falls: decisions shown without a name stay without one.
    assert registry.get_sample_value("privacy_requests_total", nameless) == 2
    named = nameless | {"dataset": "made-up"}
    assert registry.get_sample_value("privacy_requests_total", named) is None


def test_counts_survive_a_fault_and_end_with_the_partition(
    live_ledgers: Fixture, clock: TestClock
) -> None:
    made, state, registry = live_ledgers
    granted = {"dataset": "census", "outcome": "granted", "reason": ""}
    made.dropped(0, Unavailable("away"))
    assert registry.get_sample_value("privacy_filter_left", {"dataset": "census"}) is None
    assert registry.get_sample_value("privacy_requests_total", granted) == 2
    made.replayed(state, 0.1)
    commit(made, state, clock, request(clock))
    assert registry.get_sample_value("privacy_requests_total", granted) == 3
    made.dropped(0, None)
    commit(made, state, clock, request(clock))
    left = [sample.name for metric in registry.collect() for sample in metric.samples]
    assert not [
        name
        for name in left
        if name.startswith(("privacy_filter", "privacy_dataset", "privacy_partition_"))
    ]


def test_an_error_after_a_release_brings_no_series_back(live_ledgers: Fixture) -> None:
    made, state, registry = live_ledgers
    labels = {"partition": "0"}
    made.dropped(0, None)
    made.dropped(0, Fenced("another"))
    assert registry.get_sample_value("privacy_partition_ready", labels) is None
    made.replayed(state, 0.1)
    made.dropped(0, Fenced("another"))
    assert registry.get_sample_value("privacy_partition_ready", labels) == 0
    assert registry.get_sample_value("privacy_partition_fencings_total", labels) == 1


def test_a_partition_that_cannot_be_replayed_is_shown(clock: TestClock) -> None:
    made = LiveLedgers(clock)
    made.dropped(3, Unavailable("away"))
    value = make_registry(made).get_sample_value
    assert value("privacy_partition_ready", {"partition": "3"}) == 0
    assert value("privacy_partition_faults_total", {"partition": "3", "fault": "Unavailable"}) == 1


def test_a_halt_is_shown_until_the_partition_serves_again(live_ledgers: Fixture) -> None:
    made, state, registry = live_ledgers
    labels = {"partition": "0"}
    assert registry.get_sample_value("privacy_partition_halted", labels) == 0
    made.halted(0, LogDamaged("no"))
    assert registry.get_sample_value("privacy_partition_halted", labels) == 1
    made.replayed(state, 0.1)
    assert registry.get_sample_value("privacy_partition_halted", labels) == 0


def test_dead_letters_are_counted_by_reason(live_ledgers: Fixture, clock: TestClock) -> None:
    made, state, registry = live_ledgers
    commit(made, state, clock, {"type": "request", "no": "request"}, request(clock, unit="no unit"))
    commit(made, state, clock, b'"request" [')
    counted = {
        sample.labels["reason"]: sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == "privacy_dead_letters_total"
    }
    # Include zeros: for Prometheus, a series that starts at 1 has not increased.
    none = dict.fromkeys(("internal_error", "oversize", "wrong_partition"), 0)
    assert counted == {"undecodable": 1, **none}


def test_burn_compares_what_is_spent_with_the_horizon(clock: TestClock) -> None:
    made, state = LiveLedgers(clock), partition(clock)
    registry = make_registry(made)
    made.replayed(state, 0.1)
    commit(made, state, clock, opening(clock, horizon="P10D"), request(clock), request(clock))

    def burn() -> float | None:
        return registry.get_sample_value("privacy_filter_burn_ratio", {"dataset": "census"})

    assert burn() == pytest.approx(2)  # a fifth of the budget in the first tenth
    clock.pass_(seconds=86_400)
    assert burn() == pytest.approx(2)  # the first day counts as a whole one
    clock.pass_(seconds=86_400)
    assert burn() == pytest.approx(1)


def test_analysts_are_shown_only_on_demand_and_up_to_the_cap(clock: TestClock) -> None:
    made, state = LiveLedgers(clock, analysts=2), partition(clock)
    made.replayed(state, 0.1)
    bodies = [request(clock, analyst=name) for name in ("ana", "bea", "cy", "ana", "cy")]
    big = request(clock, analyst="bea", claim={"type": "pure", "epsilon": "5"})
    commit(made, state, clock, opening(clock), *bodies, big)
    registry = make_registry(made)
    shown = {
        sample.labels["analyst"]: sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == "privacy_analyst_spent"
    }
    assert shown == {"ana": 0.2, "bea": 0.1}
    bea = {"dataset": "census", "analyst": "bea", "outcome": "refused"}
    assert registry.get_sample_value("privacy_analyst_requests_total", bea) == 1
    assert registry.get_sample_value("privacy_analyst_requests_left_out_total") == 2
    made.dropped(0, None)
    assert registry.get_sample_value("privacy_analyst_requests_total", bea) is None


@pytest.mark.parametrize("fault", [Fenced("another"), Unavailable("away"), LogDamaged("no")])
@pytest.mark.parametrize("came_back", [False, True])
def test_usage_of_a_partition_that_leaves_after_a_fault_is_dropped(
    clock: TestClock, fault: Exception, came_back: bool
) -> None:
    """As on Kafka: fenced, or away from the broker, and only then revoked."""
    made, state = LiveLedgers(clock, usage=True, analysts=1), partition(clock)
    registry = make_registry(made)
    made.replayed(state, 0.1)
    commit(made, state, clock, opening(clock), request(clock, analyst="ana"))
    views = live_views(made)
    assert views.dataset("census") is not None
    made.dropped(0, Unavailable("away"))
    if came_back:
        made.replayed(state, 0.1)
    if isinstance(fault, LogDamaged):
        made.halted(0, fault)
    else:
        made.dropped(0, fault)
    assert [used.analyst for used in views_of("census", made.rows("census"))] == ["ana"]
    assert views._made
    made.dropped(0, None)
    made.dropped(0, fault)  # from its task, which ends after the release
    assert views_of("census", made.rows("census")) == []
    assert made.snapshot().analysts == []
    assert views.datasets() == {}
    assert not views._made
    made.replayed(state, 0.1)
    view = views.dataset("census")
    assert view is not None
    assert view.partition_sequence == UNKNOWN
    commit(made, state, clock, request(clock, analyst="bea"))
    bea = {"dataset": "census", "analyst": "bea", "outcome": "granted"}
    assert registry.get_sample_value("privacy_analyst_requests_total", bea) == 1


def test_no_analyst_is_shown_by_default(live_ledgers: Fixture) -> None:
    made, _, registry = live_ledgers
    assert [used.analyst for used in views_of("census", made.rows("census"))] == ["ana"]
    names = {sample.name for metric in registry.collect() for sample in metric.samples}
    assert not [name for name in names if "analyst" in name]


def test_the_counts_of_a_commit_do_not_depend_on_the_time_of_the_scrape(clock: TestClock) -> None:
    """Read after each commit, or once at the end: the same figures."""
    one, other, state = LiveLedgers(clock), LiveLedgers(clock), partition(clock)
    for made in one, other:
        made.replayed(state, 0.1)
    both = ObserverPair(one, other)
    commit(both, state, clock, opening(clock))
    for number in range(700):
        name = "census" if number % 3 else f"strange-{number}"
        commit(both, state, clock, request(clock, dataset=name), request(clock))
        one.snapshot()
    assert one.snapshot() == other.snapshot()


class ObserverPair:
    """Tells two observers the same."""

    def __init__(self, *observers: LiveLedgers) -> None:
        self._observers = observers

    def committed(self, committed: Committed) -> None:
        for observer in self._observers:
            observer.committed(committed)


def test_no_partition_is_ready_while_the_process_cannot_decide(clock: TestClock) -> None:
    status = Status()
    made, state = LiveLedgers(clock, is_sound=status.is_sound), partition(clock)
    made.replayed(state, 0.1)
    commit(made, state, clock, opening(clock))
    registry, labels = make_registry(made), {"partition": "0"}
    assert registry.get_sample_value("privacy_partition_ready", labels) == 1
    status.trouble("broker", "the broker does not answer")
    assert registry.get_sample_value("privacy_partition_ready", labels) == 0
    # Nothing was dropped: the known datasets are still valid.
    census = {"dataset": "census"}
    assert registry.get_sample_value("privacy_filter_spent_ratio", census) == 0
    status.trouble("broker", None)
    assert registry.get_sample_value("privacy_partition_ready", labels) == 1


def test_only_the_partitions_of_a_broker_that_does_not_answer_are_not_ready(
    clock: TestClock,
) -> None:
    status = Status()
    made, state = LiveLedgers(clock, is_sound=status.is_sound), partition(clock)
    for observer in (made, status):
        observer.replayed(state, 0.1)
    registry, labels = make_registry(made), {"partition": "0"}
    status.unreached({1: "its broker does not answer"})
    assert registry.get_sample_value("privacy_partition_ready", labels) == 1
    assert status.readiness().ready  # partition 1 is another process's
    status.unreached({0: "its broker does not answer"})
    assert registry.get_sample_value("privacy_partition_ready", labels) == 0
    assert status.readiness().reasons == ["partition 0: its broker does not answer"]
    status.unreached({})
    assert registry.get_sample_value("privacy_partition_ready", labels) == 1
    assert status.readiness().ready


def test_an_owner_is_no_analyst(live_ledgers: Fixture, clock: TestClock) -> None:
    made, state, _ = live_ledgers
    commit(made, state, clock, opening(clock))
    (used,) = views_of("census", made.rows("census"))
    assert (used.analyst, used.refused) == ("ana", 0)
