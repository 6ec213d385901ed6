"""Partitions: whether they are decided, how far, and what went wrong."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from streams.metrics.source import MetricsSource


class PartitionCollector(Collector):
    """Reads every partition at each scrape."""

    def __init__(self, source: MetricsSource) -> None:
        self._source = source

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        def gauge(name: str, what: str) -> GaugeMetricFamily:
            return GaugeMetricFamily(name, what, labels=["partition"])

        ready = gauge("privacy_partition_ready", "1 while its requests are being decided.")
        last = gauge(
            "privacy_last_decision_timestamp_seconds", "Time of its last decision, since 1970."
        )
        sequence = gauge("privacy_partition_sequence", "Number of its last decision.")
        datasets = gauge("privacy_partition_datasets", "Datasets that it holds.")
        ids = gauge("privacy_partition_remembered_ids", "Request ids that it remembers.")
        refold = gauge("privacy_refold_duration_seconds", "How long its last refold took.")
        fencings = CounterMetricFamily(
            "privacy_partition_fencings", "Times another owner took it over.", labels=["partition"]
        )
        faults = CounterMetricFamily(
            "privacy_partition_faults",
            "Times its state was dropped, by kind of error.",
            labels=["partition", "fault"],
        )
        for number, view in self._source.partitions().items():
            label = str(number)
            ready.add_metric([label], view.ready)
            last.add_metric([label], view.decided_at / 1000)
            sequence.add_metric([label], view.sequence)
            datasets.add_metric([label], view.datasets)
            ids.add_metric([label], view.remembered_ids)
            refold.add_metric([label], view.refold_seconds)
            fencings.add_metric([label], view.fencings)
            for fault, count in sorted(view.faults.items()):
                faults.add_metric([label, fault], count)
        yield from (ready, last, sequence, datasets, ids, refold, fencings, faults)
        lag = GaugeMetricFamily(
            "privacy_consumer_lag_records",
            "Records that wait to be decided.",
            labels=["topic", "partition"],
        )
        for waiting in self._source.lags():
            lag.add_metric([waiting.topic, str(waiting.partition)], waiting.records)
        yield lag
