"""How every dataset of this process's partitions stands, for readers in any thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from accountant.ledger import Ledger
from accountant.partition import Partition
from accountant.views import DatasetView, UsageView, analyst_of, fold_usage, view_of_ledger
from streams.clock import Clock, SystemClock
from streams.metrics.counters import Counters
from streams.metrics.source import Lag, PartitionView, RequestTotals
from streams.processor import Committed

_MOST_UNCOUNTED: Final = 2_000

_Counts = tuple[dict[str, int], dict[str, int]]


def _no_lags() -> Sequence[Lag]:
    return ()


class _Uncounted(NamedTuple):
    committed: Committed
    now: int


class Standing:
    """An observer that is a `MetricsSource`, and holds what doors show of datasets.

    A commit is only noted, in a microsecond; counting is done by whoever reads, or every
    couple of thousand decisions. Ledgers never change, only the table of them does, after
    each commit: a reader finds each dataset as some commit left it.

    Args:
        lags: called at each scrape.
    """

    def __init__(
        self, clock: Clock | None = None, *, lags: Callable[[], Sequence[Lag]] = _no_lags
    ) -> None:
        self._clock = clock or SystemClock()
        self._counters = Counters()
        self._lags = lags
        self._held: dict[int, Partition] = {}
        self._made: dict[str, tuple[Ledger, DatasetView]] = {}
        self._last: dict[str, int] = {}
        self._usage: dict[tuple[str, str], UsageView] = {}
        self._uncounted: deque[_Uncounted] = deque()
        self._uncounted_records = 0
        self._counting = threading.RLock()

    def refolded(self, partition: Partition, seconds: float) -> None:
        with self._counting:
            self._held[partition.genesis.partition] = partition
            self._counters.refolded(partition, seconds)

    def committed(self, committed: Committed) -> None:
        self._uncounted.append(_Uncounted(committed, self._clock.now()))
        self._uncounted_records += len(committed.records)
        if self._uncounted_records >= _MOST_UNCOUNTED:
            self._count()

    def dropped(self, partition: int, error: BaseException | None) -> None:
        with self._counting:
            self._count()
            self._held.pop(partition, None)
            self._counters.dropped(partition, error)

    def halted(self, partition: int, error: BaseException) -> None:
        self.dropped(partition, error)

    def _count(self) -> None:
        with self._counting:
            self._uncounted_records = 0
            while self._uncounted:
                committed, now = self._uncounted.popleft()
                self._counters.count(committed, now)
                for _, encoded in committed.records:
                    decision = encoded.decision
                    name = decision.dataset
                    if name is None or decision.sequence is None:
                        continue
                    self._last[name] = decision.partition_sequence
                    analyst = analyst_of(decision)
                    if analyst is not None:
                        view = fold_usage(self._usage.get((name, analyst)), decision, analyst)
                        if view is not None:
                            self._usage[name, analyst] = view

    def datasets(self) -> Mapping[str, DatasetView]:
        """Return every dataset of the partitions held, by name."""
        counts = self._counts()
        views = {}
        for partition in self._held.copy().values():
            for name, ledger in partition.ledgers.copy().items():
                views[name] = self._view(name, ledger, counts.get(name))
        return dict(sorted(views.items()))

    def dataset(self, name: str) -> DatasetView | None:
        """Return one dataset, None if no partition held has it."""
        for partition in self._held.copy().values():
            ledger = partition.ledgers.get(name)
            if ledger is not None:
                return self._view(name, ledger, self._counts().get(name))
        return None

    def _view(self, name: str, ledger: Ledger, counts: _Counts | None) -> DatasetView:
        made = self._made.get(name)
        if made is None or made[0] is not ledger:
            made = self._made[name] = ledger, view_of_ledger(ledger)
        if counts is None:
            return made[1]
        last = self._last.get(name, made[1].partition_sequence)
        return msgspec.structs.replace(
            made[1], partition_sequence=last, outcomes=counts[0], reasons=counts[1]
        )

    def _counts(self) -> dict[str, _Counts]:
        """Return counts by outcome and by reason of each dataset."""
        counts: dict[str, _Counts] = {}
        for (dataset, outcome, reason), count in self.requests().outcomes.items():
            outcomes, reasons = counts.setdefault(dataset, ({}, {}))
            outcomes[outcome] = outcomes.get(outcome, 0) + count
            if reason:
                reasons[reason] = reasons.get(reason, 0) + count
        return counts

    def usage(self, dataset: str) -> list[UsageView]:
        """Return who used a dataset since this process began to look, by analyst."""
        with self._counting:
            self._count()
            found = [view for (name, _), view in self._usage.items() if name == dataset]
        return sorted(found, key=lambda view: view.analyst)

    def partitions(self) -> Mapping[int, PartitionView]:
        with self._counting:
            self._count()
            return self._counters.partitions()

    def requests(self) -> RequestTotals:
        with self._counting:
            self._count()
            return self._counters.requests()

    def lags(self) -> Sequence[Lag]:
        return self._lags()
