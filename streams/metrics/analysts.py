"""Who uses what, where a setting asks for it, at most so many series; and how its index is."""

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
    """An index of usage, of a process that decides nothing."""

    def state(self) -> IndexState:
        """Tell how far it is behind."""
        ...

    def first_analysts(self, most: int) -> tuple[list[UsageRow], int] | None:
        """Return the first pairs of dataset and analyst, and how many requests others made.

        None while it is behind.
        """
        ...


class UsageCollector(Collector):
    """The families of a door on Kafka, at each scrape.

    Args:
        analysts: show so many pairs of dataset and analyst; 0 shows none.
    """

    def __init__(self, source: AnalystSource, analysts: int) -> None:
        self._source = source
        self._analysts = analysts

    def collect(self) -> Iterator[Metric]:
        # In this order: the first gives the index a moment to catch up.
        state = self._source.state()
        found = self._source.first_analysts(self._analysts) if self._analysts else None
        if found is not None:
            rows, left_out = found
            yield from analyst_families(uses_of_rows(rows), left_out)
        yield from index_families(state)


def analyst_families(analysts: Sequence[AnalystUse] | None, left_out: int) -> Iterator[Metric]:
    """Return the families by analyst, none unless they were asked for."""
    if analysts is None:
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
    for used in analysts:
        spent.add_metric([used.dataset, used.analyst, used.unit], float(used.spent))
        for outcome, count in used.outcomes.items():
            requests.add_metric([used.dataset, used.analyst, outcome], count)
    others = CounterMetricFamily(
        "privacy_analyst_requests_left_out",
        "Grants and refusals of analysts that are not shown, for the cap.",
        value=left_out,
    )
    yield from (requests, spent, others)


def index_families(index: IndexState | None) -> Iterator[Metric]:
    """Return the families of the index of usage, none where this process keeps none."""
    if index is None:
        return
    yield GaugeMetricFamily(
        "privacy_usage_index_behind",
        "Decisions that the index of usage has not taken in.",
        value=index.behind,
    )
    yield GaugeMetricFamily(
        "privacy_usage_index_trouble",
        "1 while the index of usage cannot be kept in its file.",
        value=index.trouble is not None,
    )
