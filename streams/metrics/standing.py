"""How every dataset of this process's partitions stands, for readers in any thread.

A commit only notes which ledgers it replaced, and ledgers never change: whoever reads makes
the views, without a lock, and finds each dataset as some commit left it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from accountant.ledger import Ledger
from accountant.partition import Partition
from accountant.records import Decision
from accountant.views import DatasetView, UsageView, analyst_of, fold_usage, view_of_ledger
from streams.clock import Clock
from streams.metrics.counters import Counters
from streams.metrics.source import Lag, PartitionView, RequestTotals
from streams.processor import Committed

_MOST_UNFOLDED: Final = 10_000


def _no_lags() -> Sequence[Lag]:
    return ()


class Standing:
    """An observer that is a `MetricsSource`, and holds what doors show of datasets.

    Args:
        lags: called at each scrape.
    """

    def __init__(
        self, clock: Clock | None = None, *, lags: Callable[[], Sequence[Lag]] = _no_lags
    ) -> None:
        self._counters = Counters(clock)
        self._lags = lags
        self._ledgers: dict[int, dict[str, Ledger]] = {}
        self._last_sequence: dict[str, int] = {}
        self._made: dict[str, tuple[Ledger, DatasetView]] = {}
        self._unfolded: deque[Decision] = deque()
        self._usage: dict[tuple[str, str], UsageView] = {}
        self._folding = threading.Lock()

    def refolded(self, partition: Partition, seconds: float) -> None:
        self._ledgers[partition.genesis.partition] = partition.ledgers.copy()
        self._counters.refolded(partition, seconds)

    def committed(self, committed: Committed) -> None:
        partition = committed.partition
        ledgers = self._ledgers.setdefault(partition.genesis.partition, {})
        for _, encoded in committed.records:
            decision = encoded.decision
            name = decision.dataset
            if decision.sequence is not None and name is not None:
                ledgers[name] = partition.ledgers[name]
                self._last_sequence[name] = decision.partition_sequence
                self._unfolded.append(decision)
        self._counters.committed(committed)
        if len(self._unfolded) > _MOST_UNFOLDED:
            self._fold_usage()

    def dropped(self, partition: int, error: BaseException | None) -> None:
        self._ledgers.pop(partition, None)
        self._counters.dropped(partition, error)

    def halted(self, partition: int, error: BaseException) -> None:
        self._ledgers.pop(partition, None)
        self._counters.halted(partition, error)

    def datasets(self) -> Mapping[str, DatasetView]:
        """Return every dataset of the partitions held, by name."""
        counts = self._counts()
        views = {}
        for ledgers in self._ledgers.copy().values():
            for name, ledger in ledgers.copy().items():
                views[name] = self._view(name, ledger, counts.get(name))
        return dict(sorted(views.items()))

    def dataset(self, name: str) -> DatasetView | None:
        """Return one dataset, None if no partition held has it."""
        for ledgers in self._ledgers.copy().values():
            ledger = ledgers.get(name)
            if ledger is not None:
                return self._view(name, ledger, self._counts().get(name))
        return None

    def _view(
        self, name: str, ledger: Ledger, counts: tuple[dict[str, int], dict[str, int]] | None
    ) -> DatasetView:
        made = self._made.get(name)
        if made is None or made[0] is not ledger:
            made = self._made[name] = ledger, view_of_ledger(ledger)
        if counts is None:
            return made[1]
        last = self._last_sequence.get(name, made[1].partition_sequence)
        return msgspec.structs.replace(
            made[1], partition_sequence=last, outcomes=counts[0], reasons=counts[1]
        )

    def _counts(self) -> dict[str, tuple[dict[str, int], dict[str, int]]]:
        """Return counts by outcome and by reason of each dataset."""
        counts: dict[str, tuple[dict[str, int], dict[str, int]]] = {}
        for (dataset, outcome, reason), count in self.requests().outcomes.items():
            outcomes, reasons = counts.setdefault(dataset, ({}, {}))
            outcomes[outcome] = outcomes.get(outcome, 0) + count
            if reason:
                reasons[reason] = reasons.get(reason, 0) + count
        return counts

    def usage(self, dataset: str) -> list[UsageView]:
        """Return who used a dataset since this process began to look, by analyst."""
        self._fold_usage()
        return [view for (name, _), view in sorted(self._usage.copy().items()) if name == dataset]

    def _fold_usage(self) -> None:
        with self._folding:
            for _ in range(len(self._unfolded)):
                decision = self._unfolded.popleft()
                analyst = analyst_of(decision)
                if analyst is None or decision.dataset is None:
                    continue
                key = decision.dataset, analyst
                view = fold_usage(self._usage.get(key), decision)
                if view is not None:
                    self._usage[key] = view

    def partitions(self) -> Mapping[int, PartitionView]:
        return self._counters.partitions()

    def requests(self) -> RequestTotals:
        return self._counters.requests()

    def lags(self) -> Sequence[Lag]:
        return self._lags()
