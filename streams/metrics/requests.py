"""Decisions: how many of which kind, and how long they took."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from streams.metrics.source import Histogram, MetricsSource


class RequestCollector(Collector):
    """Reads the counts at each scrape."""

    def __init__(self, source: MetricsSource) -> None:
        self._source = source

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        totals = self._source.requests()
        requests = CounterMetricFamily(
            "privacy_requests",
            "Decisions by outcome and reason; without a dataset where it was never opened.",
            labels=["dataset", "outcome", "reason"],
        )
        for labels, count in sorted(totals.outcomes.items()):
            requests.add_metric(labels, count)
        yield requests
        yield _family(
            "privacy_decision_duration_seconds",
            "From the append of a request to its visible decision.",
            totals.decision_seconds,
        )
        yield _family("privacy_commit_duration_seconds", "One transaction.", totals.commit_seconds)


def _family(name: str, what: str, histogram: Histogram) -> HistogramMetricFamily:
    family = HistogramMetricFamily(name, what)
    family.add_metric([], histogram.buckets(), histogram.total)
    return family
