"""Budgets and odometers, by dataset."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from accountant.policy import horizon_seconds
from streams.metrics.source import MetricsSource


class DatasetCollector(Collector):
    """Reads every dataset at each scrape: one that moved away leaves no series behind."""

    def __init__(self, source: MetricsSource) -> None:
        self._source = source

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        def gauge(name: str, what: str, *labels: str) -> GaugeMetricFamily:
            return GaugeMetricFamily(name, what, labels=["dataset", *labels])

        ratio = gauge(
            "privacy_filter_spent_ratio", "Part of the additive budget that is spent, 0 to 1."
        )
        left = gauge("privacy_filter_left", "What the filter's sums may still grow by.", "unit")
        budget = gauge("privacy_filter_budget", "What the filter's sums may reach.", "unit")
        exhausted = gauge("privacy_filter_exhausted", "1 once the budget is used up.")
        horizon = gauge(
            "privacy_filter_horizon_seconds", "How long the budget is meant to last, in seconds."
        )
        odometer = gauge(
            "privacy_odometer_epsilon",
            "Epsilon leaked so far, in nats, by this running bound.",
            "odometer",
        )
        generation = gauge("privacy_dataset_generation", "Which opening of the name this is.")
        closed = gauge("privacy_dataset_closed", "1 once nothing more is granted.")
        for name, view in self._source.datasets().items():
            ratio.add_metric([name], view.spent_ratio)
            exhausted.add_metric([name], view.exhausted)
            generation.add_metric([name], view.generation)
            closed.add_metric([name], view.closed)
            for unit, amount in view.left.items():
                left.add_metric([name, unit], float(amount))
            for unit, amount in view.budget.items():
                budget.add_metric([name, unit], float(amount))
            for kind, reading in view.odometers.items():
                odometer.add_metric([name, kind], float(reading))
            seconds = horizon_seconds(view.policy)
            if seconds is not None:
                horizon.add_metric([name], seconds)
        yield from (ratio, left, budget, exhausted, horizon, odometer, generation, closed)
