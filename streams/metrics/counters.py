"""An observer of processors that counts: partitions, decisions, durations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from accountant.partition import Partition
from streams.clock import Clock, SystemClock
from streams.errors import Fenced
from streams.metrics.source import Histogram, PartitionView, RequestTotals
from streams.processor import Committed


@dataclass(slots=True)
class _State:
    """One partition; only its processor's thread writes it."""

    ready: bool = False
    sequence: int = -1
    decided_at: int = 0
    datasets: int = 0
    remembered_ids: int = 0
    refold_seconds: float = 0.0
    commits: int = 0
    fencings: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    outcomes: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def take(self, partition: Partition) -> None:
        self.sequence = partition.sequence
        self.decided_at = partition.decided_at
        self.datasets = len(partition.ledgers)
        self.remembered_ids = len(partition.ids)

    def view(self) -> PartitionView:
        return PartitionView(
            ready=self.ready,
            sequence=self.sequence,
            decided_at=self.decided_at,
            datasets=self.datasets,
            remembered_ids=self.remembered_ids,
            refold_seconds=self.refold_seconds,
            commits=self.commits,
            fencings=self.fencings,
            faults=self.faults.copy(),
        )


class Counters:
    """Counts what becomes of partitions and of their requests.

    A partition that moved away takes its counts with it; the process's durations stay.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._states: dict[int, _State] = {}
        self._decision_seconds = Histogram()
        self._commit_seconds = Histogram()

    def refolded(self, partition: Partition, seconds: float) -> None:
        state = self._states.setdefault(partition.genesis.partition, _State())
        state.take(partition)
        state.ready, state.refold_seconds = True, seconds

    def committed(self, committed: Committed) -> None:
        self.count(committed, self._clock.now())

    def count(self, committed: Committed, now: int) -> None:
        """Count a commit that became visible at `now`, milliseconds since 1970."""
        partition, records, seconds = committed
        state = self._states.setdefault(partition.genesis.partition, _State(ready=True))
        state.take(partition)
        state.commits += 1
        self._commit_seconds.observe(seconds)
        outcomes, ledgers = state.outcomes, partition.ledgers
        for record, encoded in records:
            decision = encoded.decision
            name = decision.dataset
            dataset = name if name is not None and name in ledgers else ""
            key = dataset, decision.outcome.value, decision.reason.value if decision.reason else ""
            outcomes[key] = outcomes.get(key, 0) + 1
            self._decision_seconds.observe(max(0.0, (now - record.append_time) / 1000))

    def dropped(self, partition: int, error: BaseException | None) -> None:
        if error is None:
            self._states.pop(partition, None)
            return
        state = self._states.setdefault(partition, _State())
        state.ready = False
        state.fencings += isinstance(error, Fenced)
        name = type(error).__name__
        state.faults[name] = state.faults.get(name, 0) + 1

    def halted(self, partition: int, error: BaseException) -> None:
        self.dropped(partition, error)

    def partitions(self) -> Mapping[int, PartitionView]:
        """Return every partition held, as it is now."""
        return {number: state.view() for number, state in sorted(self._states.copy().items())}

    def requests(self) -> RequestTotals:
        """Return the counts as they are now."""
        outcomes: dict[tuple[str, str, str], int] = {}
        for state in self._states.copy().values():
            for key, count in state.outcomes.copy().items():
                outcomes[key] = outcomes.get(key, 0) + count
        return RequestTotals(
            outcomes=outcomes,
            decision_seconds=self._decision_seconds,
            commit_seconds=self._commit_seconds,
        )
