"""Metric of the partitions that a gateway on Kafka follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class FollowedCollector(Collector):
    """Which partitions a gateway can show.

    Args:
        known: returns by partition whether its state is known.
    """

    def __init__(self, known: Callable[[], Mapping[int, bool]]) -> None:
        self._known = known

    def collect(self) -> Iterator[Metric]:
        readable = GaugeMetricFamily(
            "privacy_partition_readable",
            "1 while this process can show the partition's datasets.",
            labels=["partition"],
        )
        for number, is_known in sorted(self._known().items()):
            readable.add_metric([str(number)], is_known)
        yield readable
