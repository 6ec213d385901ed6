"""The counts of this process's partitions, for readers in any thread."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from accountant.dataset_ledger import DatasetLedger
from accountant.partition import Partition
from accountant.views.datasets import UNKNOWN
from accountant.views.usage import Rows
from streams.clock import Clock, SystemClock
from streams.index import UsageReader
from streams.metrics.limit_scopes import shown_scopes
from streams.metrics.open_reservations import open_reservations
from streams.metrics.partition_counters import CountedCommit, Kind, PartitionCounters, requests_of
from streams.metrics.snapshot import AnalystUse, MetricsSnapshot
from streams.metrics.usage import LiveUsage, uses_of, uses_of_rows
from streams.processing.observers import Committed, Lag


class LiveLedgers:
    """An observer that is the `MetricsSource` of a process with partitions.

    `committed` only queues a commit. A reader counts it, or the deciding thread does once the queue
    makes a batch. Ledgers are immutable; a commit replaces them in their table, so a reader finds
    each dataset as after some commit. Readers hold the counting lock only while they copy:
    otherwise the deciding thread would wait.

    Args:
        lags: called at each scrape.
        partitions: the number of partitions of the whole log.
        is_sound: whether the rest of the process allows a partition to be ready.
        usage: count the use by analyst, for `rows`; costs a microsecond or two a decision.
        analysts: how many pairs of dataset and analyst to show as metrics; 0 shows none.
        index: the source of these pairs instead, for a log of one partition.
        levels: how many limits to show as metrics; 0 shows none.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        lags: Callable[[], Sequence[Lag]] = lambda: (),
        partitions: int = 1,
        is_sound: Callable[[int], bool] = lambda _: True,
        usage: bool = False,
        analysts: int = 0,
        index: UsageReader | None = None,
        levels: int = 0,
    ) -> None:
        self._clock = clock or SystemClock()
        self._lags = lags
        self._all_partitions = partitions
        self._is_sound = is_sound
        self._analysts = analysts
        self._index = index
        self._levels = levels
        counts = usage or analysts or index is not None
        in_memory = 0 if index is not None else analysts
        self._usage = LiveUsage(every=usage, shown=in_memory) if counts else None
        self._held: dict[int, Partition] = {}
        self._unheld: dict[int, set[str]] = {}  # datasets of partitions dropped after a fault
        self._gone: set[int] = set()
        self._counters: dict[int, PartitionCounters] = {}
        self._counting = threading.RLock()

    def replayed(self, partition: Partition, seconds: float) -> None:
        number = partition.genesis.partition
        with self._counting:
            self._gone.discard(number)
            self._held[number] = partition
            self._of(number).replayed(partition, seconds)

    def committed(self, committed: Committed) -> None:
        partition, records, seconds = committed
        number = partition.genesis.partition
        counters = self._counters.get(number)
        if counters is None or not records:
            return  # the partition was dropped meanwhile
        if counters.note(CountedCommit(records, seconds, self._clock.now())):
            self._count(number)

    def dropped(self, partition: int, error: BaseException | None) -> None:
        self._drop(partition, error, halted=False)

    def halted(self, partition: int, error: BaseException) -> None:
        self._drop(partition, error, halted=True)

    def _drop(self, number: int, error: BaseException | None, *, halted: bool) -> None:
        with self._counting:
            self._count(number)
            held = self._held.pop(number, None)
            # Most moves come after a fault, which has dropped the ledgers and their names.
            datasets = self._unheld.pop(number, set())
            if held is not None:
                datasets.update(held.ledgers)
            if error is not None:
                # The task of a released partition may still end with an error.
                if number not in self._gone:
                    self._unheld[number] = datasets
                    self._of(number).dropped(error, halted=halted)
                return
            self._gone.add(number)
            self._counters.pop(number, None)
            if self._usage is not None:
                self._usage.forget(datasets)

    def _of(self, number: int) -> PartitionCounters:
        return self._counters.setdefault(number, PartitionCounters())

    def _count(self, number: int) -> None:
        with self._counting:
            counters = self._counters.get(number)
            decided = () if counters is None else counters.count()
            held = self._held.get(number)
            if self._usage is not None and held is not None:
                self._usage.count(decided, held.ledgers)

    def _count_all(self) -> None:
        for number in list(self._counters):
            self._count(number)

    def snapshot(self) -> MetricsSnapshot:
        lags = self._lags()  # before the lock: the callback may take another lock
        shown: list[AnalystUse] | None = None
        left_out = 0
        with self._counting:
            self._count_all()
            partitions = {
                number: each.view(sound=self._is_sound(number))
                for number, each in sorted(self._counters.items())
            }
            counted = [each.counts() for each in self._counters.values()]
            held = [partition.ledgers.copy() for partition in self._held.values()]
            if self._usage is not None and self._analysts and self._index is None:
                pairs, left_out = self._usage.shown()
                shown = uses_of(pairs)
            at = self._clock.now()
            partitions_held = list(self._held.values())
        levels, not_shown = None, 0
        if self._levels:  # not under the lock: the deciding thread would wait
            levels, not_shown = shown_scopes(partitions_held, at, self._levels)
        reservations = open_reservations(partitions_held, at)
        state = None
        if self._index is not None:  # not under the lock: it waits for a file
            uptos = {number: each.sequence for number, each in partitions.items()}
            state = self._index.state(uptos)
            if self._analysts:
                rows, left_out = self._index.first_analysts(self._analysts, uptos) or (None, 0)
                shown = None if rows is None else uses_of_rows(rows)
        return MetricsSnapshot(
            at=at,
            ledgers=_merge(held),
            partitions=partitions,
            all_partitions=self._all_partitions,
            requests=requests_of(counted),
            lags=lags,
            analysts=shown,
            analysts_left_out=left_out,
            index=state,
            levels=levels,
            levels_not_shown=not_shown,
            reservations=reservations,
        )

    def requests(self) -> Mapping[Kind, int]:
        """Return the decisions counted, by (dataset, outcome, reason)."""
        with self._counting:
            self._count_all()
            counted = [each.counts() for each in self._counters.values()]
        return requests_of(counted)

    def requests_on(self, name: str) -> Mapping[tuple[str, str | None], int]:
        """As `requests`, of one dataset, by (outcome, reason)."""
        with self._counting:
            self._count_all()
            found = [Counter(each.of(name)) for each in self._counters.values()]
        return sum(found, Counter())

    def last_on(self, name: str) -> int:
        """Return the number of the last partition decision counted on a dataset, or `UNKNOWN`."""
        return UNKNOWN if self._usage is None else self._usage.last.get(name, UNKNOWN)

    def rows(self, dataset: str) -> Rows:
        """Return a copy of the use of a dataset by analyst, since this process started."""
        with self._counting:
            self._count_all()
            return {} if self._usage is None else self._usage.of(dataset)


def _merge(each: Iterable[Mapping[str, DatasetLedger]]) -> dict[str, DatasetLedger]:
    ledgers: dict[str, DatasetLedger] = {}
    for some in each:
        ledgers |= some
    return ledgers
