"""What is counted of one partition: its decisions, durations and faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from accountant.encoded import Encoded
from accountant.inputs import Input
from accountant.outcomes import Outcome
from accountant.partition import Partition
from streams.errors import Fenced
from streams.metrics.histogram import RECORDS, SECONDS, Histogram
from streams.metrics.source import PartitionView
from streams.processor import DEAD

Kind = tuple[str, str, str]
"""Dataset, outcome and reason; the dataset is empty where none of that name was opened."""

_MOST_STRANGE: Final = 10_000
_BATCH: Final = 500
_GRANTED: Final = Outcome.GRANTED
_DEAD: Final = frozenset(reason.value for reason in DEAD)


class Commit(NamedTuple):
    """One commit that is yet to be counted.

    Attributes:
        now: when it became visible, milliseconds since 1970.
    """

    records: Sequence[tuple[Input, Encoded]]
    seconds: float
    now: int


class PartitionCounters:
    """Counts one partition, for as long as this process holds it or tries to.

    `count` runs in the thread that decides: what it does for each decision is done by loops
    in C, over a whole batch at a time. Calls are not concurrent; see `Standing`.
    """

    def __init__(self) -> None:
        self._waiting: list[Commit] = []
        self._waiting_records = 0
        self._ready = self._halted = False
        self._sequence, self._decided_at = -1, 0
        self._datasets = self._remembered_ids = 0
        self._partition: Partition | None = None
        self._refold_seconds = 0.0
        self._fencings = 0
        self._faults: Counter[str] = Counter()
        # As decided: with names that nobody opened, until `_settle` takes them out.
        self._outcomes: Counter[tuple[str | None, str, str | None]] = Counter()
        self._granted: Counter[str | None] = Counter()  # only ever of datasets that are open
        self._settled: Counter[Kind] = Counter()
        self._most = _MOST_STRANGE
        self._decision_seconds = Histogram(SECONDS)
        self._commit_seconds = Histogram(SECONDS)
        self._commit_records = Histogram(RECORDS)

    def refolded(self, partition: Partition, seconds: float) -> None:
        """Note the state that decisions are made on from here."""
        self._partition = partition
        self._ready, self._halted, self._refold_seconds = True, False, seconds

    def note(self, commit: Commit) -> bool:
        """Note what became visible, and tell whether it is time to count.

        May run beside the other calls.
        """
        self._waiting.append(commit)
        self._waiting_records += len(commit.records)
        return self._waiting_records >= _BATCH

    def count(self) -> Sequence[Commit]:
        """Count what was noted, and return it."""
        commits = self._waiting[:]
        # What is noted meanwhile stays for the next time.
        del self._waiting[: len(commits)]
        self._waiting_records = 0
        decided = [encoded for commit in commits for _, encoded in commit.records]
        # Nearly all are grants: names alone, whose hashes are known, are counted fastest.
        # The rest by values, since hashing an enum's member is a call into Python.
        self._granted.update([each.dataset for each in decided if each.outcome is _GRANTED])
        self._outcomes.update(
            (each.dataset, each.outcome._value_, why if why is None else why._value_)
            for each in decided
            if each.outcome is not _GRANTED
            for why in (each.reason,)
        )
        for commit in commits:
            self._time(*commit)
        if len(self._outcomes) > self._most:
            self._settle()
        return commits

    def _time(self, records: Sequence[tuple[Input, Encoded]], seconds: float, now: int) -> None:
        first, oldest = records[0]
        age = max(0.0, (now - first.append_time) / 1000)
        if len(records) == 1:
            self._decision_seconds.observe(age, oldest, now)
        else:
            self._decision_seconds.observe_ages([each.append_time for each, _ in records], now)
            self._decision_seconds.show(oldest, age, now)
            last, newest = records[-1]
            age = max(0.0, (now - last.append_time) / 1000)
            self._decision_seconds.show(newest, age, now)
        self._commit_seconds.observe(seconds, oldest, now)
        self._commit_records.observe(len(records))

    def dropped(self, error: BaseException | None, *, halted: bool) -> None:
        """Note that the state is gone, and what for."""
        self._settle()
        self._take_figures()
        self._partition = None
        self._ready, self._halted = False, halted
        if error is not None:
            self._fencings += isinstance(error, Fenced)
            self._faults[type(error).__name__] += 1

    def requests(self) -> Mapping[Kind, int]:
        """Return the decisions counted, by kind."""
        self._settle()
        found = self._settled.copy()
        for name, count in self._granted.items():
            found[name or "", _GRANTED.value, ""] += count
        for (dataset, outcome, reason), count in self._outcomes.items():
            found[dataset or "", outcome, reason or ""] += count
        return found

    def view(self, *, sound: bool = True) -> PartitionView:
        """Return the partition as it is now.

        Args:
            sound: False where the process cannot decide, whatever the partition could.
        """
        self._take_figures()
        # Zeros, too: a series that begins at 1 has not increased, and would raise no alert.
        dead = Counter(dict.fromkeys(sorted(_DEAD), 0))
        for (_, _, reason), count in (*self._outcomes.items(), *self._settled.items()):
            if reason in _DEAD:
                dead[str(reason)] += count
        return PartitionView(
            ready=self._ready and sound,
            halted=self._halted,
            sequence=self._sequence,
            decided_at=self._decided_at,
            datasets=self._datasets,
            remembered_ids=self._remembered_ids,
            refold_seconds=self._refold_seconds,
            fencings=self._fencings,
            faults=self._faults.copy(),
            dead_letters=dead,
            decision_seconds=self._decision_seconds.buckets(),
            commit_seconds=self._commit_seconds.buckets(),
            commit_records=self._commit_records.buckets(),
        )

    def _take_figures(self) -> None:
        partition = self._partition
        if partition is not None:
            self._sequence, self._decided_at = partition.sequence, partition.decided_at
            self._datasets = len(partition.ledgers)
            self._remembered_ids = len(partition.ids)

    def _settle(self) -> None:
        """Move the counts of names that were never opened to the empty name, for good.

        For good, since a counter must not fall: once such a name is opened, what it was
        refused before stays where it was shown.
        """
        ledgers = {} if self._partition is None else self._partition.ledgers
        strange = [key for key in self._outcomes if key[0] not in ledgers]
        if self._partition is not None:
            for key in strange:
                self._settled["", key[1], key[2] or ""] += self._outcomes.pop(key)
        self._most = len(self._outcomes) + _MOST_STRANGE
