"""Who uses what, where a setting asks for it, at most so many series; and how its index is."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from streams.metrics.snapshot import Snapshot


def analyst_families(snapshot: Snapshot) -> Iterator[Metric]:
    """Return the families by analyst, none unless they were asked for."""
    if snapshot.analysts is None:
        return
    requests = CounterMetricFamily(
        "privacy_analyst_requests",
        "Grants and refusals of one analyst on one dataset.",
        labels=["dataset", "analyst", "outcome"],
    )
    spent = GaugeMetricFamily(
        "privacy_analyst_spent",
        "What the analyst's grants cost, in the additive unit.",
        labels=["dataset", "analyst", "unit"],
    )
    for used in snapshot.analysts:
        spent.add_metric([used.dataset, used.analyst, used.unit], float(used.spent))
        for outcome, count in used.outcomes.items():
            requests.add_metric([used.dataset, used.analyst, outcome], count)
    left_out = CounterMetricFamily(
        "privacy_analyst_requests_left_out",
        "Grants and refusals of analysts that are not shown, for the cap.",
        value=snapshot.analysts_left_out,
    )
    yield from (requests, spent, left_out)


def index_families(snapshot: Snapshot) -> Iterator[Metric]:
    """Return the families of the index of usage, none where this process keeps none."""
    if snapshot.index is None:
        return
    yield GaugeMetricFamily(
        "privacy_usage_index_behind",
        "Decisions that the index of usage has not taken in.",
        value=snapshot.index.behind,
    )
    yield GaugeMetricFamily(
        "privacy_usage_index_trouble",
        "1 while the index of usage cannot be kept in its file.",
        value=snapshot.index.trouble is not None,
    )
