"""The registry of all collectors of a process, and its text formats."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from itertools import groupby
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, Info, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from accountant.records import RULES
from streams.metrics.analysts import analyst_families, index_families
from streams.metrics.datasets import DatasetCollector
from streams.metrics.limit_scopes import scope_families
from streams.metrics.partitions import partition_families
from streams.metrics.reservations import reservation_families
from streams.metrics.snapshot import MetricsSnapshot, MetricsSource
from streams.metrics.text_families import TextFamily

_END: Final = b"# EOF\n"


class _LedgerCollector(Collector):
    """All collectors of a ledger, over one snapshot a scrape."""

    def __init__(self, source: MetricsSource) -> None:
        self._source = source
        self._datasets = DatasetCollector()

    def collect(self) -> Iterator[Metric]:
        snapshot = self._source.snapshot()
        yield from self._datasets.collect(snapshot)
        yield from reservation_families(snapshot.reservations)
        yield from request_families(snapshot)
        yield from analyst_families(snapshot.analysts, snapshot.analysts_left_out)
        yield from index_families(snapshot.index)
        yield from scope_families(snapshot.levels, snapshot.levels_not_shown)
        yield from partition_families(snapshot)


class MetricsCollector(Protocol):
    """What a scrape reads; a class of the embedded ledger imports no Prometheus for it."""

    def collect(self) -> Iterable[Metric]:
        """Return the metrics as they are now."""
        ...


class _Registered(Collector):
    def __init__(self, collector: MetricsCollector) -> None:
        self._collector = collector

    def collect(self) -> Iterable[Metric]:
        return self._collector.collect()


class MetricList(Collector):
    """A list of metrics as a registry, for the library's encoders."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """Return the metrics."""
        return self._metrics


def make_registry(source: MetricsSource | None, *more: MetricsCollector) -> CollectorRegistry:
    """Return a registry that reads `source` at each scrape.

    Args:
        source: None for a process without a ledger.
        more: further collectors of this process.
    """
    registry = CollectorRegistry(auto_describe=False)
    if source is not None:
        registry.register(_LedgerCollector(source))
    for collector in more:
        registry.register(_Registered(collector))
    ProcessCollector(registry=registry)
    build = Info("privacy_accountant_build", "Version of this process.", registry=registry)
    build.info({"version": version(), "rules": str(RULES), "python": platform.python_version()})
    return registry


def exposition(registry: CollectorRegistry | MetricList, accept: str) -> tuple[bytes, str]:
    """Return (text, content type) in the format that a scraper accepts best."""
    encoder: Callable[..., bytes]
    encoder, content_type = choose_encoder(accept)
    openmetrics = content_type.startswith("application/openmetrics-text")
    text = []
    for rendered, metrics in groupby(registry.collect(), lambda each: isinstance(each, TextFamily)):
        if rendered:
            for each in metrics:
                assert isinstance(each, TextFamily)
                text.append(each.text(openmetrics=openmetrics).encode())
        else:
            text.append(encoder(MetricList(metrics)).removesuffix(_END))
    if openmetrics:
        text.append(_END)
    return b"".join(text), content_type


def version() -> str:
    """Return the version of this distribution."""
    try:
        return metadata.version("streaming-privacy-accountant")
    except metadata.PackageNotFoundError:
        return "unknown"


def request_families(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    """Return the counts of decisions by dataset, outcome and reason."""
    yield TextFamily(
        "privacy_requests",
        "Decisions by outcome and reason; the dataset is empty if it was never opened.",
        "counter",
        [_line(*key, count) for key, count in snapshot.requests.items()],
    )


def _line(dataset: str, outcome: str, reason: str, count: int) -> str:
    # Names of datasets, outcomes and reasons need no escapes.
    labels = f'dataset="{dataset}",outcome="{outcome}",reason="{reason}"'
    return f"privacy_requests_total{{{labels}}} {count}.0\n"
