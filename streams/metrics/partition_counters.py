"""Counts of one partition: its decisions, durations and faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from accountant.partition import Partition
from accountant.records.encoded_decision import EncodedDecision, by_dataset
from accountant.records.inputs import Input
from accountant.records.outcomes import Outcome
from streams.errors import Fenced
from streams.metrics.histogram import RECORDS, SECONDS, Histogram
from streams.metrics.snapshot import PartitionView
from streams.processing.processor import DEAD

Kind = tuple[str, str, str]
"""Dataset, outcome and reason; the dataset is empty if none of that name was opened."""

_Decided = tuple[str | None, str, str | None]
"""As `Kind`, with the name in the request."""

_MAX_UNKNOWN: Final = 10_000
_BATCH: Final = 500
_GRANTED: Final = Outcome.GRANTED
_DEAD: Final = tuple(sorted(reason.value for reason in DEAD))


class CountedCommit(NamedTuple):
    """One commit that is not counted yet.

    Attributes:
        now: the time when it became visible, milliseconds since 1970.
    """

    records: Sequence[tuple[Input, EncodedDecision]]
    seconds: float
    now: int


class Counts(NamedTuple):
    """A copy of the counts of one partition at one moment."""

    settled: dict[Kind, int]
    granted: dict[str | None, int]
    outcomes: dict[_Decided, int]


def requests_of(counted: Iterable[Counts]) -> dict[Kind, int]:
    """Return the decisions of partitions together, by kind."""
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

    `count` runs in the deciding thread, so its work for each decision is in C loops over a whole
    batch. Calls are not concurrent; see `LiveLedgers`.
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
        # As decided, with names of datasets that do not exist, until `_settle` removes those.
        self._outcomes: Counter[_Decided] = Counter()
        self._unknown: list[_Decided] = []  # keys of `_outcomes` whose dataset may not exist
        self._kinds: dict[tuple[str, str | None], None] = {}  # all kinds so far, except grants
        self._dead: set[_Decided] = set()  # keys of `_outcomes` that are dead letters
        self._granted: Counter[str | None] = Counter()  # only for datasets that exist
        self._settled: Counter[Kind] = Counter()
        self._decision_seconds = Histogram(SECONDS)
        self._commit_seconds = Histogram(SECONDS)
        self._commit_records = Histogram(RECORDS)

    def replayed(self, partition: Partition, seconds: float) -> None:
        """Record the state on which decisions build from now on."""
        self._partition, self._end = partition, (partition.sequence, partition.head)
        self._ready, self._halted, self._refold_seconds = True, False, seconds

    def note(self, commit: CountedCommit) -> bool:
        """Queue a visible commit; return whether it is time to count.

        May run concurrently with the other calls.
        """
        self._waiting.append(commit)
        partition = self._partition
        if partition is not None:
            # Read here, in the deciding thread: another one could read two different decisions.
            self._end = partition.sequence, partition.head
        self._waiting_records += len(commit.records)
        return self._waiting_records >= _BATCH

    def count(self) -> Sequence[EncodedDecision]:
        """Count the queued commits, and return their decisions."""
        commits = self._waiting[:]
        # Remove only these: `note` may append more meanwhile.
        del self._waiting[: len(commits)]
        self._waiting_records = 0
        decided = [encoded for commit in commits for _, encoded in commit.records]
        # Nearly all are grants: count those by name alone, since strings cache their hashes.
        granted = [x.dataset for x in decided if x.outcome is _GRANTED and not x.parts]
        if len(granted) < len(decided):
            # A request over several datasets counts in each of them.
            decided = by_dataset(decided)
            granted = [each.dataset for each in decided if each.outcome is _GRANTED]
            self._count_others([each for each in decided if each.outcome is not _GRANTED])
        self._granted.update(granted)
        for commit in commits:
            self._time(*commit)
        if len(self._unknown) >= _MAX_UNKNOWN:
            self._settle()
        return decided

    def _count_others(self, others: Sequence[EncodedDecision]) -> None:
        """Count decisions that are no grants."""
        known = len(self._outcomes)
        # By values, since hashing an enum's member is a call into Python.
        self._outcomes.update(
            (each.dataset, each.outcome._value_, why if why is None else why._value_)
            for each in others
            for why in (each.reason,)
        )
        self._administered += sum(
            each.decision.administrator for each in others if each.outcome.may_be_administered
        )
        if len(self._outcomes) > known:
            # New keys are at the end of the dict, so do not search all of them.
            self._register(islice(reversed(self._outcomes), len(self._outcomes) - known))

    def _register(self, new: Iterable[_Decided]) -> None:
        ledgers = {} if self._partition is None else self._partition.ledgers
        for key in new:
            self._kinds[key[1:]] = None
            if key[0] not in ledgers:
                self._unknown.append(key)
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
        """Record that the state was dropped, and why."""
        self._settle()
        self._take_figures()
        self._partition = None
        self._ready, self._halted = False, halted
        if error is not None:
            self._fencings += isinstance(error, Fenced)
            self._faults[type(error).__name__] += 1

    def counts(self) -> Counts:
        """Return a copy of the counts; `requests_of` adds them up outside of the lock."""
        self._settle()
        return Counts(dict(self._settled), dict(self._granted), dict(self._outcomes))

    def of(self, dataset: str) -> dict[tuple[str, str | None], int]:
        """Return the counts of one dataset, by outcome and reason."""
        if self._partition is not None and dataset not in self._partition.ledgers:
            return {}  # its counts belong to the empty name; `_settle` will move them
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
            sound: False if the process cannot decide, even if the partition could.
        """
        self._take_figures()
        self._settle()
        end = self._end
        # Include zeros: a series that starts at 1 has not increased, and would raise no alert.
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
        """Move the counts of datasets that do not exist to the empty name.

        They never move back, since a counter must not fall: if such a dataset is opened later, its
        earlier refusals still count under the empty name.
        """
        if self._partition is None:
            return
        ledgers = self._partition.ledgers
        for key in self._unknown:
            if key[0] not in ledgers:
                self._settled["", key[1], key[2] or ""] += self._outcomes.pop(key)
                self._dead.discard(key)
        self._unknown = []
