"""What is wrong with the place of checkpoints, for a scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from streams.evidence.heads import Heads


class CheckpointTroubles(Collector):
    """Counts partitions whose key is not the log's, and ledgers that were replaced.

    Args:
        heads: returns those that keep checkpoints in this process.
    """

    def __init__(self, heads: Callable[[], Iterable[Heads]]) -> None:
        self._heads = heads

    def collect(self) -> Iterator[Metric]:
        heads = list(self._heads())
        yield GaugeMetricFamily(
            "privacy_checkpoint_key_differs",
            "Partitions whose checkpoints are signed by another key than the log's.",
            value=sum(each.key_differs for each in heads),
        )
        yield GaugeMetricFamily(
            "privacy_ledgers_replaced",
            "Other ledgers of which checkpoints are where this one's are.",
            value=max((each.others for each in heads), default=0),
        )
