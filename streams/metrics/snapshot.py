"""The data of one scrape, for every kind of process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from accountant.dataset_ledger import DatasetLedger
from accountant.reservations.deadlines import ReservationCounts
from accountant.views.limit_views import ScopeView
from streams.index import IndexState
from streams.metrics.histogram import Buckets
from streams.processing.observers import Lag


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """One partition in this process.

    Attributes:
        ready: whether this process decides its requests.
        halted: whether it is halted until an operator acts.
        sequence, head: number and hash of its last decision; the hash is empty without one.
        decided_at: time of that decision, milliseconds since 1970.
        branch: fork of its log, see `records.Rollback`.
        datasets, remembered_ids: their numbers in its state.
        refold_seconds: duration of its last replay.
        fencings: since this process started.
        faults: number of replays after an error, by the error's name.
        dead_letters: dead-lettered inputs, by reason.
        administered: administrators' records on members and pauses, since this process started.
        decision_seconds: from append to visible decision.
        commit_seconds, commit_records: by transaction.
    """

    ready: bool
    halted: bool
    sequence: int
    head: str
    decided_at: int
    branch: int
    datasets: int
    remembered_ids: int
    refold_seconds: float
    fencings: int
    faults: Mapping[str, int]
    dead_letters: Mapping[str, int]
    administered: int
    decision_seconds: Buckets
    commit_seconds: Buckets
    commit_records: Buckets


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalystUse:
    """The use of one dataset by one analyst.

    Attributes:
        outcomes: number of decisions, by outcome.
        spent: cost of the grants, in `unit`, as an exact decimal.
    """

    dataset: str
    analyst: str
    unit: str
    spent: str
    outcomes: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeUse:
    """A limit of a dataset, with its use."""

    dataset: str
    level: ScopeView


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSnapshot:
    """All data of one scrape, taken at one moment.

    Attributes:
        at: that moment, milliseconds since 1970.
        ledgers: of the partitions that this process is deciding now, by dataset.
        partitions: those that it holds or tries to hold.
        all_partitions: the number of partitions of the whole log.
        requests: decisions by (dataset, outcome, reason); the dataset is empty if it was never
            opened, so that requests cannot create series.
        lags: known lags of the inputs.
        analysts: None if a setting switches them off.
        analysts_left_out: decisions on requests of analysts that are not shown.
        index: None if this process has no usage index.
        levels: limits in force; None if a setting switches them off.
        levels_not_shown: number of further limits in force.
        reservations: open ones, by dataset; only of datasets that have some.
    """

    at: int
    ledgers: Mapping[str, DatasetLedger]
    partitions: Mapping[int, PartitionView]
    all_partitions: int
    requests: Mapping[tuple[str, str, str], int]
    lags: Sequence[Lag] = ()
    analysts: Sequence[AnalystUse] | None = field(default=None)
    analysts_left_out: int = 0
    index: IndexState | None = None
    levels: Sequence[ScopeUse] | None = field(default=None)
    levels_not_shown: int = 0
    reservations: Mapping[str, ReservationCounts] = field(default_factory=dict)


class MetricsSource(Protocol):
    """The source of a scrape's data."""

    def snapshot(self) -> MetricsSnapshot:
        """Return an immutable copy of the present state. Safe in any thread."""
        ...
