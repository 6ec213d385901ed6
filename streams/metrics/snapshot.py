"""What the collectors need to know, whoever keeps the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from accountant.ledger import Ledger
from accountant.views.limit_views import LevelView
from streams.index import IndexState
from streams.metrics.histogram import Buckets
from streams.processing.observers import Lag


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """One partition as this process has it.

    Attributes:
        ready: its requests are being decided.
        halted: they never will be, until an operator acts.
        sequence, head: number and hash of its last decision; the hash is empty without one.
        decided_at: of that one, milliseconds since 1970.
        branch: of its log, see `records.Rollback`.
        datasets, remembered_ids: how many it holds.
        refold_seconds: how long its last refold took.
        fencings: since this process began.
        faults: why it had to refold, by name of the error.
        dead_letters: inputs set aside, by reason.
        administered: records of administrators on members, since this process began.
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
    """What one analyst asked of one dataset.

    Attributes:
        outcomes: how many decisions, by outcome.
        spent: what the grants cost, in `unit`, as an exact decimal.
    """

    dataset: str
    analyst: str
    unit: str
    spent: str
    outcomes: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelUse:
    """A limit of a dataset, as it stands."""

    dataset: str
    level: LevelView


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSnapshot:
    """All that one scrape shows, taken at one moment.

    Attributes:
        at: that moment, milliseconds since 1970.
        ledgers: of the partitions that this process is deciding now, by dataset.
        partitions: those that it holds or tries to hold.
        all_partitions: how many the whole log has.
        requests: decisions by (dataset, outcome, reason); the dataset is empty where none of
            that name was ever opened, so that nobody can make up series.
        lags: how far behind the inputs are, as far as is known.
        analysts: None unless they were asked for.
        analysts_left_out: decisions on requests of analysts that are not shown.
        index: None where this process keeps none.
        levels: limits in force; None unless they were asked for.
        levels_not_shown: how many more there are.
    """

    at: int
    ledgers: Mapping[str, Ledger]
    partitions: Mapping[int, PartitionView]
    all_partitions: int
    requests: Mapping[tuple[str, str, str], int]
    lags: Sequence[Lag] = ()
    analysts: Sequence[AnalystUse] | None = field(default=None)
    analysts_left_out: int = 0
    index: IndexState | None = None
    levels: Sequence[LevelUse] | None = field(default=None)
    levels_not_shown: int = 0


class MetricsSource(Protocol):
    """Where a scrape reads."""

    def snapshot(self) -> MetricsSnapshot:
        """Return the present state. Safe in any thread; nothing in it changes any more."""
        ...
