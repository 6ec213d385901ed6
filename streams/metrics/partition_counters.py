"""What is counted of one partition: its decisions, durations and faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from accountant.partition import Partition
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.inputs import Input
from accountant.records.outcomes import Outcome
from streams.errors import Fenced
from streams.metrics.histogram import RECORDS, SECONDS, Histogram
from streams.metrics.snapshot import PartitionView
from streams.processing.processor import DEAD

Kind = tuple[str, str, str]
"""Dataset, outcome and reason; the dataset is empty where none of that name was opened."""

_Decided = tuple[str | None, str, str | None]
"""As `Kind`, with the name that was decided on."""

_MOST_STRANGE: Final = 10_000
_BATCH: Final = 500
_GRANTED: Final = Outcome.GRANTED
_DEAD: Final = tuple(sorted(reason.value for reason in DEAD))


class CountedCommit(NamedTuple):
    """One commit that is yet to be counted.

    Attributes:
        now: when it became visible, milliseconds since 1970.
    """

    records: Sequence[tuple[Input, EncodedDecision]]
    seconds: float
    now: int


class Counts(NamedTuple):
    """What was counted of one partition up to one moment: nothing changes it any more."""

    settled: dict[Kind, int]
    granted: dict[str | None, int]
    outcomes: dict[_Decided, int]


def requests_of(counted: Iterable[Counts]) -> dict[Kind, int]:
    """Return the decisions of all of some partitions, by kind."""
    total: dict[Kind, int] = {}
    granted = _GRANTED.value
    for each in counted:
        for kind, count in each.settled.items():
            total[kind] = total.get(kind, 0) + count
        for name, count in each.granted.items():
            kind = name or "", granted, ""
            total[kind] = total.get(kind, 0) + count
        for (dataset, outcome, reason), count in each.outcomes.items():
            kind = dataset or "", outcome, reason or ""
            total[kind] = total.get(kind, 0) + count
    return total


class PartitionCounters:
    """Counts one partition, for as long as this process holds it or tries to.

    `count` runs in the thread that decides: what it does for each decision is done by loops
    in C, over a whole batch at a time. Calls are not concurrent; see `LiveLedgers`.
    """

    def __init__(self) -> None:
        self._waiting: list[CountedCommit] = []
        self._waiting_records = 0
        self._ready = self._halted = False
        self._end, self._decided_at = (-1, ""), 0
        self._datasets = self._remembered_ids = self._branch = 0
        self._partition: Partition | None = None
        self._refold_seconds = 0.0
        self._fencings = self._administered = 0
        self._faults: Counter[str] = Counter()
        # As decided: with names that nobody opened, until `_settle` takes them out.
        self._outcomes: Counter[_Decided] = Counter()
        self._strange: list[_Decided] = []  # of those, the ones that may have to go
        self._kinds: dict[tuple[str, str | None], None] = {}  # all there ever were but grants
        self._dead: set[_Decided] = set()  # of those, the ones that are dead letters
        self._granted: Counter[str | None] = Counter()  # only ever of datasets that are open
        self._settled: Counter[Kind] = Counter()
        self._decision_seconds = Histogram(SECONDS)
        self._commit_seconds = Histogram(SECONDS)
        self._commit_records = Histogram(RECORDS)

    def refolded(self, partition: Partition, seconds: float) -> None:
        """Note the state that decisions are made on from here."""
        self._partition, self._end = partition, (partition.sequence, partition.head)
        self._ready, self._halted, self._refold_seconds = True, False, seconds

    def note(self, commit: CountedCommit) -> bool:
        """Note what became visible, and tell whether it is time to count.

        May run beside the other calls.
        """
        self._waiting.append(commit)
        partition = self._partition
        if partition is not None:
            # In the thread that decides: nobody else sees both of one decision.
            self._end = partition.sequence, partition.head
        self._waiting_records += len(commit.records)
        return self._waiting_records >= _BATCH

    def count(self) -> Sequence[EncodedDecision]:
        """Count what was noted, and return its decisions."""
        commits = self._waiting[:]
        # What is noted meanwhile stays for the next time.
        del self._waiting[: len(commits)]
        self._waiting_records = 0
        decided = [encoded for commit in commits for _, encoded in commit.records]
        # Nearly all are grants: names alone, whose hashes are known, are counted fastest.
        # The rest by values, since hashing an enum's member is a call into Python.
        self._granted.update([each.dataset for each in decided if each.outcome is _GRANTED])
        known = len(self._outcomes)
        others = [each for each in decided if each.outcome is not _GRANTED]
        self._outcomes.update(
            (each.dataset, each.outcome._value_, why if why is None else why._value_)
            for each in others
            for why in (each.reason,)
        )
        self._administered += sum(
            each.decision.administrator
            for each in others
            if each.outcome is Outcome.MEMBER_SET or each.outcome is Outcome.MEMBER_REMOVED
        )
        if len(self._outcomes) > known:
            # What is new stands at the end: nobody has to look through all of them.
            self._meet(islice(reversed(self._outcomes), len(self._outcomes) - known))
        for commit in commits:
            self._time(*commit)
        if len(self._strange) >= _MOST_STRANGE:
            self._settle()
        return decided

    def _meet(self, new: Iterable[_Decided]) -> None:
        ledgers = {} if self._partition is None else self._partition.ledgers
        for key in new:
            self._kinds[key[1:]] = None
            if key[0] not in ledgers:
                self._strange.append(key)
            if key[2] in _DEAD:
                self._dead.add(key)

    def _time(
        self, records: Sequence[tuple[Input, EncodedDecision]], seconds: float, now: int
    ) -> None:
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

    def counts(self) -> Counts:
        """Return the decisions counted, as a copy: to look at them takes longer; `requests_of`."""
        self._settle()
        return Counts(dict(self._settled), dict(self._granted), dict(self._outcomes))

    def of(self, dataset: str) -> dict[tuple[str, str | None], int]:
        """Return what `counts` has under one name, by outcome and reason."""
        if self._partition is not None and dataset not in self._partition.ledgers:
            return {}  # what is there is about to be settled
        found: dict[tuple[str, str | None], int] = {}
        if dataset in self._granted:
            found[_GRANTED.value, None] = self._granted[dataset]
        for kind in self._kinds:
            count = self._outcomes.get((dataset, *kind))
            if count is not None:
                found[kind] = count
        return found

    def view(self, *, sound: bool = True) -> PartitionView:
        """Return the partition as it is now.

        Args:
            sound: False where the process cannot decide, whatever the partition could.
        """
        self._take_figures()
        self._settle()
        end = self._end
        # Zeros, too: a series that begins at 1 has not increased, and would raise no alert.
        dead = dict.fromkeys(_DEAD, 0)
        for (_, _, reason), count in self._settled.items():
            if reason in dead:
                dead[reason] += count
        for key in self._dead:
            dead[str(key[2])] += self._outcomes[key]
        return PartitionView(
            ready=self._ready and sound,
            halted=self._halted,
            sequence=end[0],
            head=end[1],
            decided_at=self._decided_at,
            branch=self._branch,
            datasets=self._datasets,
            remembered_ids=self._remembered_ids,
            refold_seconds=self._refold_seconds,
            fencings=self._fencings,
            faults=self._faults.copy(),
            dead_letters=dead,
            administered=self._administered,
            decision_seconds=self._decision_seconds.buckets(),
            commit_seconds=self._commit_seconds.buckets(),
            commit_records=self._commit_records.buckets(),
        )

    def _take_figures(self) -> None:
        partition = self._partition
        if partition is not None:
            self._decided_at = partition.decided_at
            self._branch = partition.branch
            self._datasets = len(partition.ledgers)
            self._remembered_ids = len(partition.ids)

    def _settle(self) -> None:
        """Move the counts of names that were never opened to the empty name, for good.

        For good, since a counter must not fall: once such a name is opened, what it was
        refused before stays where it was shown.
        """
        if self._partition is None:
            return
        ledgers = self._partition.ledgers
        for key in self._strange:
            if key[0] not in ledgers:
                self._settled["", key[1], key[2] or ""] += self._outcomes.pop(key)
                self._dead.discard(key)
        self._strange = []
