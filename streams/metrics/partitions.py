"""Metrics of partitions: readiness, progress, speed and faults."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.samples import Exemplar

from accountant.records import DECODE_ERRORS
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.request_names import decode_request_details
from accountant.times import issued_at
from streams.metrics.histogram import Buckets
from streams.metrics.snapshot import MetricsSnapshot

_HEAD_DIGITS: Final = 13  # 52 bits


def partition_families(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    """Return the families of the partitions that this process holds or tries to hold."""
    yield GaugeMetricFamily(
        "privacy_partitions", "Partitions of the whole log.", value=snapshot.all_partitions
    )
    yield from _gauges(snapshot)
    yield from _faults(snapshot)
    yield from _durations(snapshot)
    lag = GaugeMetricFamily(
        "privacy_consumer_lag_records",
        "Input records without a decision yet.",
        labels=["topic", "partition"],
    )
    for waiting in snapshot.lags:
        lag.add_metric([waiting.topic, str(waiting.partition)], waiting.records)
    yield lag


def _gauges(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    def gauge(name: str, what: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(name, what, labels=["partition"])

    ready = gauge("privacy_partition_ready", "1 while this process decides its requests.")
    halted = gauge("privacy_partition_halted", "1 once it is halted until an operator acts.")
    last = gauge(
        "privacy_last_decision_timestamp_seconds", "Time of its last decision, since 1970."
    )
    sequence = gauge("privacy_partition_sequence", "Number of its last decision.")
    head = gauge(
        "privacy_partition_head", "First 52 bits of the hash of its last decision, as a number."
    )
    branch = gauge(
        "privacy_partition_branch",
        "Fork of its log: above 0 once a loss of decisions was accepted.",
    )
    datasets = gauge("privacy_partition_datasets", "Datasets that it holds.")
    ids = gauge("privacy_partition_remembered_ids", "Request ids that it remembers.")
    refold = gauge("privacy_refold_duration_seconds", "Duration of its last replay.")
    for number, view in snapshot.partitions.items():
        label = [str(number)]
        ready.add_metric(label, view.ready)
        halted.add_metric(label, view.halted)
        last.add_metric(label, view.decided_at / 1000)
        sequence.add_metric(label, view.sequence)
        if view.head:
            head.add_metric(label, head_bits(view.head))
        branch.add_metric(label, view.branch)
        datasets.add_metric(label, view.datasets)
        ids.add_metric(label, view.remembered_ids)
        refold.add_metric(label, view.refold_seconds)
    yield from (ready, halted, last, sequence, head, branch, datasets, ids, refold)


def head_bits(head: str) -> int:
    """Return as many bits of a hash as a double can represent."""
    return int(head.removeprefix("sha256:")[:_HEAD_DIGITS], 16)


def _faults(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    fencings = CounterMetricFamily(
        "privacy_partition_fencings",
        "Times that another owner fenced this one.",
        labels=["partition"],
    )
    faults = CounterMetricFamily(
        "privacy_partition_faults",
        "Times that its state was dropped, by kind of error.",
        labels=["partition", "fault"],
    )
    dead = CounterMetricFamily(
        "privacy_dead_letters", "Dead-lettered input records.", labels=["partition", "reason"]
    )
    administered = CounterMetricFamily(
        "privacy_administrator_records",
        "Records of an administrator instead of an owner: members, pauses and resumes.",
        labels=["partition"],
    )
    for number, view in snapshot.partitions.items():
        administered.add_metric([str(number)], view.administered)
        fencings.add_metric([str(number)], view.fencings)
        for fault, count in sorted(view.faults.items()):
            faults.add_metric([str(number), fault], count)
        for reason, count in sorted(view.dead_letters.items()):
            dead.add_metric([str(number), reason], count)
    yield from (fencings, faults, dead, administered)


def _durations(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    def histogram(name: str, what: str) -> HistogramMetricFamily:
        return HistogramMetricFamily(name, what, labels=["partition"])

    decision = histogram(
        "privacy_decision_duration_seconds",
        "Time from the append of a request to its visible decision.",
    )
    commit = histogram("privacy_commit_duration_seconds", "Duration of one transaction.")
    records = histogram("privacy_commit_records", "Decisions in one transaction.")
    for number, view in snapshot.partitions.items():
        for family, buckets in (
            (decision, view.decision_seconds),
            (commit, view.commit_seconds),
            (records, view.commit_records),
        ):
            family.add_metric([str(number)], _cumulative(buckets), buckets.total)
    yield from (decision, commit, records)


def _cumulative(buckets: Buckets) -> list[Any]:
    """Return (upper bound, how many at or below it[, exemplar]) of each bucket."""
    rows: list[Any] = []
    cumulative = 0
    names = [*(f"{bound:.12g}" for bound in buckets.bounds), "+Inf"]
    for name, count, example in zip(names, buckets.counts, buckets.examples, strict=True):
        cumulative += count
        found = None if example is None else request_id_of(example.encoded)
        if example is None or found is None:
            rows.append((name, float(cumulative)))
        else:
            exemplar = Exemplar({"request_id": found}, example.value, example.at / 1000)
            rows.append((name, float(cumulative), exemplar))
    return rows


def request_id_of(encoded: EncodedDecision) -> str | None:
    """Return the id of a decision's request; None if it has none."""
    try:
        found = decode_request_details(encoded.decision.request).request_id
    except DECODE_ERRORS:
        return None
    return found if issued_at(found) is not None else None
