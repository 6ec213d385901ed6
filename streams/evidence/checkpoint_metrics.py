"""Metrics of troubles with checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from streams.evidence.checkpointer import Checkpointer


class CheckpointMetrics(Collector):
    """Tells whether checkpoints are stored, signed by the log's key, and of one ledger alone.

    Args:
        checkpointers: returns the checkpointers of this process.
    """

    def __init__(self, checkpointers: Callable[[], Iterable[Checkpointer]]) -> None:
        self._checkpointers = checkpointers

    def collect(self) -> Iterator[Metric]:
        checkpointers = list(self._checkpointers())
        yield GaugeMetricFamily(
            "privacy_checkpoint_overdue_seconds",
            "By how much a checkpoint exceeds its time; 0 while every checkpoint is stored.",
            value=max((each.overdue_seconds for each in checkpointers), default=0),
        )
        yield GaugeMetricFamily(
            "privacy_checkpoint_key_differs",
            "Partitions whose checkpoints are signed by another key than the log's.",
            value=sum(each.key_differs for each in checkpointers),
        )
        yield GaugeMetricFamily(
            "privacy_ledgers_replaced",
            "Other ledgers of which checkpoints are where this one's are.",
            value=max((each.others for each in checkpointers), default=0),
        )
