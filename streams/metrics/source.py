"""What the collectors need to know, whoever keeps the ledger."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from accountant.views import DatasetView

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the duration histograms, in seconds."""


class Histogram:
    """Durations counted by bucket; one thread writes, any may read.

    Attributes:
        counts: by bucket of `SECONDS`, the last one above them all; not cumulative.
        total: sum of what was observed, in seconds.
    """

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(SECONDS) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(SECONDS, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Return (upper bound, how many at or below it), as the exposition format wants."""
        bounds = [*(str(bound) for bound in SECONDS), "+Inf"]
        sums, seen = [], 0
        for bound, count in zip(bounds, list(self.counts), strict=True):
            seen += count
            sums.append((bound, float(seen)))
        return sums


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """One partition as this process has it.

    Attributes:
        ready: its requests are being decided.
        sequence: number of its last decision.
        decided_at: of that one, milliseconds since 1970.
        datasets, remembered_ids: how many it holds.
        refold_seconds: how long its last refold took.
        commits, fencings: since this process began.
        faults: why it had to refold, by name of the error.
    """

    ready: bool
    sequence: int
    decided_at: int
    datasets: int
    remembered_ids: int
    refold_seconds: float
    commits: int
    fencings: int
    faults: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTotals:
    """What was decided since this process began.

    Attributes:
        outcomes: counts by (dataset, outcome, reason); the dataset is empty where none of
            that name was ever opened, so that nobody can make up series.
        decision_seconds: from append to visible decision.
        commit_seconds: one transaction.
    """

    outcomes: Mapping[tuple[str, str, str], int]
    decision_seconds: Histogram
    commit_seconds: Histogram


@dataclass(frozen=True, slots=True)
class Lag:
    """How many records of one input wait to be decided."""

    topic: str
    partition: int
    records: int


class MetricsSource(Protocol):
    """Where the collectors read, at each scrape. Every method is safe in any thread."""

    def datasets(self) -> Mapping[str, DatasetView]:
        """Return the datasets of the partitions that this process is deciding now."""
        ...

    def partitions(self) -> Mapping[int, PartitionView]:
        """Return the partitions that this process holds or tries to hold."""
        ...

    def requests(self) -> RequestTotals:
        """Return the counts of decisions."""
        ...

    def lags(self) -> Sequence[Lag]:
        """Return how far behind the inputs are, as far as is known."""
        ...
