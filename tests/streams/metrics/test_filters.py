"""Every filter's ledgers are exported, whatever sums it keeps."""

from __future__ import annotations

import math

import msgspec
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from accountant.filters import FILTERS
from accountant.partition.decide import decide
from accountant.partition.draft import Draft
from accountant.policy import Policy, guarantee_of, resolve
from accountant.records.inputs import Input
from streams.metrics.live_ledgers import LiveLedgers
from streams.metrics.registry import exposition, make_registry
from streams.processing.observers import Committed
from tests.accountant.filters.policies import POLICIES
from tests.streams.clock import TestClock
from tests.streams.gateway.records import opening, request
from tests.streams.metrics.test_live_ledgers import partition


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_s_sums_are_exported_under_their_names(name: str, clock: TestClock) -> None:
    check_exported(POLICIES[name], clock)


def check_exported(policy: Policy, clock: TestClock) -> None:
    """Check the metrics of a dataset's budget, remaining amounts and guarantee."""
    made, state = LiveLedgers(clock), partition(clock)
    made.replayed(state, 0.1)
    opened = opening(clock) | {"policy": msgspec.to_builtins(policy)}
    bodies = [("admin", opened), *[("requests", request(clock)) for _ in range(3)]]
    draft, decided = Draft(state), []
    for source, body in bodies:
        value = msgspec.json.encode(body)
        record = Input(source, draft.next[source], None, value, clock.now())
        decided.append((record, decide(draft, record, clock.now())))
    draft.absorb()
    made.committed(Committed(state, decided, 0.001))
    ledger = state.ledgers["census"]

    text, _ = exposition(make_registry(made), "application/openmetrics-text; version=1.0.0")
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            if sample.labels.get("dataset") == "census":
                further = [v for k, v in sample.labels.items() if k != "dataset"]
                found.setdefault(sample.name, {})[" ".join(further)] = sample.value
    sums = set(ledger.plan.kind.sums)
    assert found["privacy_filter_budget"].keys() == found["privacy_filter_left"].keys() == sums
    assert all(0 <= left < math.inf for left in found["privacy_filter_left"].values())
    assert 0 <= found["privacy_filter_spent_ratio"][""] <= 1
    parameter, amount, delta = guarantee_of(resolve(policy))
    assert found["privacy_guarantee"] == {parameter: float(amount), "delta": float(delta)}
    counts_delta = any(each.endswith("delta") for each in sums)
    assert ("privacy_filter_delta_spent" in found) == counts_delta
