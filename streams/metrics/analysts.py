"""Metrics of the use by analyst, with a capped number of series, and of the usage index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from accountant.views.usage import UsageRow
from streams.index import IndexState
from streams.metrics.snapshot import AnalystUse
from streams.metrics.usage import uses_of_rows


class AnalystSource(Protocol):
    """The usage index of a process that decides nothing."""

    def state(self) -> IndexState:
        """Return how far it lags."""
        ...

    def first_analysts(self, limit: int) -> tuple[list[UsageRow], int] | None:
        """Return the first pairs of dataset and analyst, and the number of others' requests.

        None while it lags.
        """
        ...


class UsageCollector(Collector):
    """The usage metrics of a gateway on Kafka.

    Args:
        analysts: how many pairs of dataset and analyst to show; 0 shows none.
    """

    def __init__(self, source: AnalystSource, analysts: int) -> None:
        self._source = source
        self._analysts = analysts

    def collect(self) -> Iterator[Metric]:
        # `state` first: it gives the index a moment to catch up.
        state = self._source.state()
        found = self._source.first_analysts(self._analysts) if self._analysts else None
        if found is not None:
            rows, left_out = found
            yield from analyst_families(uses_of_rows(rows), left_out)
        yield from index_families(state)


def analyst_families(analysts: Sequence[AnalystUse] | None, left_out: int) -> Iterator[Metric]:
    """Return the families by analyst; none if a setting switches them off."""
    if analysts is None:
        return
    requests = CounterMetricFamily(
        "privacy_analyst_requests",
        "Grants and refusals of one analyst on one dataset.",
        labels=["dataset", "analyst", "outcome"],
    )
    spent = GaugeMetricFamily(
        "privacy_analyst_spent",
        "Cost of the analyst's grants, in the additive unit.",
        labels=["dataset", "analyst", "unit"],
    )
    for used in analysts:
        spent.add_metric([used.dataset, used.analyst, used.unit], float(used.spent))
        for outcome, count in used.outcomes.items():
            requests.add_metric([used.dataset, used.analyst, outcome], count)
    others = CounterMetricFamily(
        "privacy_analyst_requests_left_out",
        "Grants and refusals of analysts that are not shown, because of the cap.",
        value=left_out,
    )
    yield from (requests, spent, others)


def index_families(index: IndexState | None) -> Iterator[Metric]:
    """Return the families of the usage index; none if this process has no index."""
    if index is None:
        return
    yield GaugeMetricFamily(
        "privacy_usage_index_behind",
        "Decisions that the usage index does not have yet.",
        value=index.behind,
    )
    yield GaugeMetricFamily(
        "privacy_usage_index_trouble",
        "1 while the usage index cannot be written to its file.",
        value=index.trouble is not None,
    )
