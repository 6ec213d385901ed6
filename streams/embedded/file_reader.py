"""Serves reads of a ledger's file without owning it; a writer may be at work."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import apsw

from accountant.advice.preview import Preview, preview
from accountant.errors import BudgetError, LogDamaged
from accountant.limits.applicable_limits import team_of
from accountant.limits.state import limit_state_of
from accountant.limits.store import LimitTable
from accountant.partition.ids import decode_identity
from accountant.policy import Policy
from accountant.records import Decision, PartitionRow, Source, decode_snapshot
from accountant.records.decoding import decode_from_log
from accountant.records.encoded_decision import CountedDecision
from accountant.records.header import DecisionHeader, decode_header
from accountant.records.inputs import CheckedInput
from accountant.records.limit_records import decode_scope_row, scope_row_keys
from accountant.records.members import (
    Member,
    MemberRow,
    decode_member_row,
    member_keys,
    member_row_key,
)
from accountant.records.names import is_name
from accountant.records.parts import by_dataset, lines_by_dataset, value_about
from accountant.records.previews import PreviewRequest
from accountant.records.reservation_rows import decode_reservation_row, reservation_row_keys
from accountant.replay.sealed_log import partition_row as sealed_partition_row
from accountant.reservations.reservation import Reservation, reservation_of
from accountant.times import NO_RESETS, from_iso, issued_at
from accountant.views.datasets import Alert, DatasetView, view_of_snapshot
from accountant.views.follow import counted_decision, fold_run, runs
from accountant.views.heads import Head
from accountant.views.ledgers import ledger_of
from accountant.views.limit_views import (
    AnalystBudget,
    DatasetLimits,
    ScopeView,
    analyst_budget,
    scope_views,
)
from accountant.views.overview import Overview
from accountant.views.population import ordered_before
from accountant.views.reservations import OpenReservations, ReservationPage
from accountant.views.usage import By, UsageRow, UsageView
from accountant.views.visibility import Caller
from accountant.views.why import UsageSums, Why
from streams.clock import Clock
from streams.embedded.decision_reader import LogSlices, read_slice
from streams.embedded.file_identity import FileIdentity, identify
from streams.embedded.ledger_file import (
    ROWS,
    decode_row_or_refuse,
    numbered_decisions,
    partition_row,
    reader,
    sound_row,
)
from streams.embedded.sealed_log import first_unarchived, read_sealed
from streams.errors import Gone, Refused, Unavailable
from streams.index import UsageIndex
from streams.service.dataset_reads import overview_of, usage_of, why_of_dataset
from streams.service.ledger_service import MAX_PAGE_BYTES, Readiness, Submission, heads_of
from streams.service.reservation_reads import reservations_of

_AT_A_TIME: Final = 20_000  # a longer run of one dataset's decisions needs less full decoding
_SNAPSHOT: Final = b'{"type":"snapshot"'
_LATEST: Final = 100  # cached decisions of a dataset
_MOST_APART: Final = 100  # with more datasets than this, all are replayed at once
_READ_ONLY: Final = "this ledger was opened for readers alone: open it without `read_only`"

T = TypeVar("T")


class _Fold:
    """Replays the log of a ledger's file as it grows.

    Args:
        only: the one dataset that is folded; without it, all are.
    """

    def __init__(self, path: Path, *, only: str | None = None) -> None:
        self._path = path
        # JSON never escapes a name, so a decision without these bytes is on another dataset.
        self._within = b"" if only is None else only.encode()
        self._read = -1
        self._views: dict[str, DatasetView] = {}
        self._rows: dict[bytes, bytes] = {}  # that agree with them
        self.latest = deque[tuple[int, bytes]](maxlen=_LATEST)
        """The latest decisions on the one dataset, with their numbers in it."""

    def read(self, which: str, bindings: tuple[bytes, ...]) -> list[DatasetView]:
        """Return the datasets that have a row, as the log has them at the same moment.

        Args:
            which: the query from its WHERE or ORDER on.
        """
        query = f"{ROWS} {which}"
        with reader(self._path, traceless=True) as db:
            if not db.execute(f"{query} LIMIT 1", bindings).fetchall():
                return []
            self._catch_up(db)  # before the transaction, which is short for that
            with db:  # one transaction, so one moment
                rows: list[Any] = db.execute(query, bindings).fetchall()
                self._catch_up(db)
        found = [(row[0], sound_row(*row)) for row in rows]
        return [self._view(key, value) for key, value in found if value.startswith(_SNAPSHOT)]

    def _catch_up(self, db: apsw.Connection) -> None:
        """Replay the decisions since the last call.

        No statement lasts: outside a transaction, the writer's WAL goes back into the file
        meanwhile.

        Raises: LogDamaged: a decision cannot be read. Refused: as `numbered_decisions`.
        """
        if self._read < 0:
            self._begin(db)
        lines = self._count_lines(numbered_decisions(db, first=self._read + 1))
        while found := runs(islice(lines, _AT_A_TIME)):
            for name, run in found.items():
                view = fold_run(self._views.get(name), run)
                if view is not None:
                    self._views[name] = view

    def _begin(self, db: apsw.Connection) -> None:
        """Start from the snapshot of a log whose beginning was archived."""
        sealed = read_sealed(db)
        if sealed is None:
            return
        for value in sealed.state[:-1]:
            if value.startswith(_SNAPSHOT) and self._within in value:
                row = decode_from_log(0, value, decode_snapshot)
                self._views[row.dataset] = view_of_snapshot(row)
        self._read = sealed_partition_row(sealed).partition_sequence

    def _count_lines(self, values: Iterable[tuple[int, bytes]]) -> Iterator[CountedDecision]:
        for number, value in values:
            self._read = number
            if self._within in value:
                line = decode_from_log(number, value, decode_header)
                for part, own in lines_by_dataset(line, value):
                    if part.dataset is None:
                        continue
                    if part.sequence is not None and part.dataset.encode() == self._within:
                        self.latest.append((part.sequence, value))
                    try:
                        yield counted_decision(part, own, usage=False)
                    except ValueError as error:
                        what = f"decision {number} cannot be read: {error}"
                        raise LogDamaged(what) from error

    def _view(self, key: bytes, value: bytes) -> DatasetView:
        """Return the dataset of a row of `state`.

        Raises: LogDamaged: row and log disagree. Refused: the row cannot be read.
        """
        if self._rows.get(key) != value:
            row = view_of_snapshot(decode_row_or_refuse(key, value, decode_snapshot))
            view = self._views.setdefault(row.dataset, row)
            if (row.sequence, row.totals) != (view.sequence, view.totals):
                # Rows are checksummed on this path, decisions are not.
                raise LogDamaged(
                    f"the row of {row.dataset} in `state` must be as its decisions leave it: "
                    "`accountant audit` tells which is wrong"
                )
            self._rows[key] = value
        return self._views[key.decode()]


class FileReader:
    """A `LedgerService` that only reads a ledger's file.

    It takes no lock, makes no file and writes no byte; a writer may have the file open, in whose
    -shm SQLite marks what its readers have open. It keeps what it has read: another call reads
    the log's new end alone. Any thread may call it; calls wait for one another.

    Args:
        path: absolute.
        index: the index of usage that is copied to begin with, where there is one.
    """

    def __init__(self, path: Path, clock: Clock, *, index: Path | None = None) -> None:
        self._path = path
        self._clock = clock
        self._fold = _Fold(path)
        self._apart: dict[str, _Fold] = {}
        self._index_path = index
        self._index: UsageIndex | None = None
        self._ledger: tuple[FileIdentity | None, bytes] | None = None
        self._one_at_a_time = threading.RLock()

    async def _in_thread(self, call: Callable[..., T], *args: Any) -> T:
        return await asyncio.to_thread(self._read_one_at_a_time, call, *args)

    def _read_one_at_a_time(self, call: Callable[..., T], *args: Any) -> T:
        """Call a function that reads, one call at a time, and once more if the file has changed.

        Earlier reads are void once a writer has started, the log's beginning was archived, or
        another file is at the path.
        """
        with self._one_at_a_time:
            for is_last in (False, True):
                try:
                    self._check_ledger()
                    return call(*args)
                except Gone:
                    raise
                except BaseException as error:
                    self._forget()  # the cache may be half updated
                    if is_last or not isinstance(error, (LogDamaged, Refused, Unavailable)):
                        raise
            raise AssertionError("the last try returns or raises")

    def _check_ledger(self) -> None:
        """Clear the cache if the path leads to another file."""
        with reader(self._path, traceless=True) as db:
            (_, first) = next(numbered_decisions(db, limit=1), (0, b""))
        found = identify(self._path), first
        if found != self._ledger:
            self._forget()
            self._ledger = found

    def _forget(self) -> None:
        """Clear the cache."""
        self._ledger = None
        self._fold = _Fold(self._path)
        self._apart.clear()
        if self._index is not None:
            self._index.close()
            self._index = None

    async def submit(
        self,
        source: Source,
        body: bytes,
        *,
        wait: float,
        checked: CheckedInput | None = None,
        new: bool = False,
    ) -> Submission:
        """Refuse: this service decides nothing.

        Raises: Refused.
        """
        raise Refused(_READ_ONLY)

    async def submit_many(
        self,
        bodies: Sequence[bytes],
        *,
        wait: float,
        checked: Sequence[CheckedInput | None] | None = None,
    ) -> list[Submission | BudgetError]:
        """Refuse each: this service decides nothing."""
        return [Refused(_READ_ONLY) for _ in bodies]

    async def find(self, dataset: str, caller: str, request_id: str) -> bytes | None:
        return await self._in_thread(self._find, dataset, caller, request_id)

    async def datasets(self) -> list[DatasetView]:
        return await self._in_thread(self._datasets)

    async def dataset(self, name: str) -> DatasetView | None:
        return await self._in_thread(self._dataset, name)

    async def preview(self, dataset: str, asked: PreviewRequest) -> Preview | None:
        view = await self.dataset(dataset)
        return None if view is None else await self._in_thread(self._preview, view, asked)

    async def levels(self, dataset: str) -> list[ScopeView]:
        view = await self.dataset(dataset)
        if view is None:
            return []
        return await self._in_thread(lambda: scope_views(self._limits_of(view)[0]))

    async def budget_for(self, dataset: str, analyst: str) -> AnalystBudget | None:
        view = await self.dataset(dataset)
        return None if view is None else await self._in_thread(self._budget, view, analyst)

    async def open_reservations(self, dataset: str) -> OpenReservations:
        """Implement `LedgerService.open_reservations`."""
        view = await self.dataset(dataset)
        if view is None:
            return OpenReservations((), 0, {})
        return await self._in_thread(self._open_reservations, view)

    async def reservations(
        self, dataset: str, *, after: int, limit: int, holder: str | None = None
    ) -> ReservationPage:
        now = self._clock.now()
        return await reservations_of(
            self, dataset, after=after, limit=limit, holder=holder, now=now
        )

    async def usage_by(self, dataset: str, by: By) -> list[UsageRow]:
        """Implement `LedgerService.usage_by`."""
        return await self._in_thread(self._usage, dataset, by)

    async def sums(self, dataset: str, *, since_day: str) -> UsageSums | None:
        """Return the data of `why`, None for a dataset that was never opened."""
        return await self._in_thread(self._sums, dataset, since_day)

    async def usage(self, dataset: str) -> list[UsageView]:
        return await usage_of(self, dataset)

    async def why(self, dataset: str, *, analyst: str | None = None) -> Why | None:
        return await why_of_dataset(self, dataset, now=self._clock.now(), analyst=analyst)

    async def overview(self, dataset: str, caller: Caller | None) -> Overview | None:
        """Implement `LedgerService.overview`."""
        return await overview_of(self, dataset, caller, self._clock)

    async def decisions(self, dataset: str, *, after: int, limit: int) -> list[bytes]:
        return await self._in_thread(self._decisions, dataset, after, limit)

    async def members(self, dataset: str) -> list[Member]:
        rows = await self._in_thread(self._members, dataset)
        return [row.as_member for row in rows]

    async def heads(self) -> list[Head]:
        return await heads_of(self)

    def ordered_before(self) -> int | None:
        row = self._read_one_at_a_time(self._partition_row)
        return 0 if row is None else ordered_before([row.clock_resets])

    def events(self) -> AsyncIterator[Decision]:
        """Refuse: a file does not notify readers when it grows.

        Raises: Refused.
        """
        raise Refused(_READ_ONLY)

    def alerts(self) -> AsyncIterator[Alert]:
        """Refuse, like `events`.

        Raises: Refused.
        """
        raise Refused(_READ_ONLY)

    def readiness(self) -> Readiness:
        return Readiness(ready=False, reasons=[_READ_ONLY])

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        with self._one_at_a_time:
            self._forget()

    @property
    def partitions(self) -> int:
        """1: a file has one partition."""
        return 1

    def partition_of(self, dataset: str) -> int:
        """0: a file has one partition."""
        return 0

    def check_is_known(self, dataset: str) -> None:
        """Return: a reader knows each dataset of the file."""

    def policy(self, dataset: str) -> Policy | None:
        """Implement `LedgerService.policy`."""
        view = self._read_one_at_a_time(self._dataset, dataset)
        return None if view is None else view.policy

    def member(self, dataset: str, name: str) -> MemberRow | None:
        """Implement `LedgerService.member`."""
        found = [
            row for row in self._read_one_at_a_time(self._members, dataset) if row.member == name
        ]
        return found[0] if found else None

    def open_reservation(self, dataset: str, grant: str) -> None:
        """Return None: a reader takes no records."""

    def memberships(self, name: str) -> list[MemberRow]:
        """Implement `LedgerService.memberships`."""
        views = self._read_one_at_a_time(self._datasets)
        found = (self.member(view.dataset, name) for view in views)
        return [row for row in found if row is not None]

    def decided_at(self, dataset: str) -> int:
        """Implement `LedgerService.decided_at`."""
        row = self._read_one_at_a_time(self._partition_row)
        return 0 if row is None else row.decided_at

    def appended(self) -> NoReturn:
        """Refuse, like `events`.

        Raises: Refused.
        """
        raise Refused(_READ_ONLY)

    async def read_log(self, partition: int, first: int, limit: int) -> Sequence[bytes]:
        """Implement `LedgerService.read_log`."""
        return await self._in_thread(self._slice, first, limit)

    async def last_decision(self, partition: int) -> tuple[int, bytes]:
        """Implement `LedgerService.last_decision`."""
        return await self._in_thread(self._last_decision)

    def branch(self, partition: int) -> int | None:
        """Implement `LedgerService.branch`."""
        row = self._read_one_at_a_time(self._partition_row)
        return 0 if row is None else row.branch or 0

    def newest_checkpoint(self, partition: int) -> None:
        """None: a reader has no key."""

    def _partition_row(self) -> PartitionRow | None:
        with reader(self._path, traceless=True) as db:
            return partition_row(db)

    def _datasets(self) -> list[DatasetView]:
        return self._fold.read("ORDER BY key", ())

    def _dataset(self, name: str) -> DatasetView | None:
        if not is_name(name):
            return None
        # A replay of one dataset reads the whole log, so many datasets are replayed at once.
        fold = self._apart.get(name)
        if fold is None and len(self._apart) >= _MOST_APART:
            fold = self._fold
        elif fold is None:
            fold = self._apart[name] = _Fold(self._path, only=name)
        found = fold.read("WHERE key = ?", (name.encode(),))
        return found[0] if found else None

    def _preview(self, view: DatasetView, asked: PreviewRequest) -> Preview:
        divided, rows = self._limits_of(view, asked.analyst or "", asked.via or "")
        return preview(view, asked, divided, lambda _, name: rows.get(name), self._members)

    def _budget(self, view: DatasetView, analyst: str) -> AnalystBudget:
        divided, rows = self._limits_of(view, analyst)
        return analyst_budget(divided, analyst, team_of(rows.get(analyst), divided.at))

    def _limits_of(
        self, view: DatasetView, *names: str
    ) -> tuple[DatasetLimits, dict[str, MemberRow]]:
        """Return the limits of a dataset, and the rows of those of some names who are members.

        Raises: LogDamaged, Refused, Unavailable.
        """
        first, last = scope_row_keys(view.dataset)
        with reader(self._path, traceless=True) as db, db:  # one transaction, so one moment
            levels: list[Any] = db.execute(
                f"{ROWS} WHERE key > ? AND key < ?", (first, last)
            ).fetchall()
            members: list[Any] = []
            for name in names:
                key = member_row_key(view.dataset, name)
                members += db.execute(f"{ROWS} WHERE key = ?", (key,)).fetchall()
            held = _reservation_rows(db, view.dataset)
            own = partition_row(db)
        table = LimitTable()
        for each in levels:
            row = decode_row_or_refuse(each[0], sound_row(*each), decode_scope_row)
            try:
                table.put(limit_state_of(row))
            except ValueError as error:
                what = f"a row of a limit of {view.dataset} is damaged: {error}"
                raise LogDamaged(what) from error
        # Do not use the dataset's last decision: after a clock reset it is in the future.
        decided = 0 if own is None else own.decided_at
        resets = NO_RESETS if own is None else own.clock_resets
        at = max(self._clock.now(), decided)
        rows = [
            decode_row_or_refuse(each[0], sound_row(*each), decode_member_row) for each in members
        ]
        reservations = _open_ones(held)
        divided = DatasetLimits(ledger_of(view), table, at, resets, reservations)
        return divided, {row.member: row for row in rows}

    def _open_reservations(self, view: DatasetView) -> OpenReservations:
        with reader(self._path, traceless=True) as db, db:  # one transaction, so one moment
            found, own = _reservation_rows(db, view.dataset), partition_row(db)
        rows = sorted(_open_ones(found), key=lambda row: row.sequence)
        # A clock that was set back revives nothing: the dataset's own time may be later.
        last = from_iso(view.last_decided_at)
        return OpenReservations(rows, last if own is None else max(last, own.decided_at), {})

    def _members(self, dataset: str) -> list[MemberRow]:
        if not is_name(dataset):
            return []
        first, last = member_keys(dataset)
        with reader(self._path, traceless=True) as db:
            found: list[Any] = db.execute(
                f"{ROWS} WHERE key > ? AND key < ? ORDER BY key", (first, last)
            ).fetchall()
        rows = [decode_row_or_refuse(row[0], sound_row(*row), decode_member_row) for row in found]
        return sorted(rows, key=lambda row: row.member)

    def _catch_up_index(self) -> UsageIndex:
        if self._index is None:
            self._index = UsageIndex.temporary(self._index_path)
        with closing(LogSlices(self._path, traceless=True)) as log:
            self._index.catch_up(log)
        return self._index

    def _usage(self, dataset: str, by: By) -> list[UsageRow]:
        with self._catch_up_index().at_last() as rows:
            return rows.usage(dataset, by)

    def _sums(self, dataset: str, since_day: str) -> UsageSums | None:
        with self._catch_up_index().at_last() as rows:
            return rows.sums(dataset, since_day=since_day)

    def _decisions(self, dataset: str, after: int, limit: int) -> list[bytes]:
        """Implement `Service.decisions` from the log itself: a reader writes no index."""
        found, size = list[bytes](), 0
        view = self._dataset(dataset)
        if view is None:
            return []
        fold = self._apart.get(dataset)
        if fold is not None and fold.latest and fold.latest[0][0] <= after + 1:
            latest = [value for number, value in fold.latest if number > after][:limit]
            return [value_about(value, dataset) for value in latest]
        for value, line in self._lines(dataset):
            if line.sequence is None or line.sequence <= after:
                continue
            if not found and line.sequence > after + 1:
                raise _gone_to_archive(dataset, after, line.sequence - 1)
            found.append(value_about(value, dataset))
            size += len(value)
            if len(found) >= limit or size >= MAX_PAGE_BYTES:
                break
        if not found and view.sequence > after:
            raise _gone_to_archive(dataset, after, view.sequence)
        return found

    def _find(self, dataset: str, caller: str, request_id: str) -> bytes | None:
        if issued_at(request_id) is None:
            return None
        for value, line in self._lines(dataset, within=request_id.encode()):
            asked = decode_identity(bytes(line.request))
            found = asked.dataset, asked.caller, asked.request_id
            if line.sequence is not None and found == (dataset, caller, request_id):
                return value
        return None

    def _lines(
        self, dataset: str, *, within: bytes = b""
    ) -> Iterator[tuple[bytes, DecisionHeader]]:
        """Yield the decisions on a dataset in the order of the log, with their headers.

        Args:
            within: only those that hold these bytes.
        """
        name = dataset.encode()
        with reader(self._path, traceless=True) as db:
            for number, value in numbered_decisions(db, first=first_unarchived(db)):
                if name in value and within in value:
                    line = decode_from_log(number, value, decode_header)
                    for part in by_dataset(line):
                        if part.dataset == dataset:
                            yield value, part

    def _slice(self, first: int, limit: int) -> list[bytes]:
        with reader(self._path, traceless=True) as db:
            return read_slice(db, first, limit)

    def _last_decision(self) -> tuple[int, bytes]:
        with reader(self._path, traceless=True) as db:
            row = partition_row(db)
            last = -1 if row is None else row.partition_sequence
            found = list(numbered_decisions(db, first=max(0, last), limit=1))
        if not found:
            raise LogDamaged(f"decision {last} of the log is missing")
        return found[-1]


def _gone_to_archive(dataset: str, after: int, last: int) -> Gone:
    what = f"decisions {after + 1} to {last} of {dataset} are in an archive of the log"
    return Gone(f"{what}: read on after={last}", after=last)


def _reservation_rows(db: apsw.Connection, dataset: str) -> list[Any]:
    query = f"{ROWS} WHERE key > ? AND key < ?"
    return db.execute(query, reservation_row_keys(dataset)).fetchall()


def _open_ones(rows: Iterable[Any]) -> list[Reservation]:
    return [each for each in map(_reservation, rows) if each.is_open]


def _reservation(row: Any) -> Reservation:
    """Return the reservation of a row of `state`.

    Raises: LogDamaged, Refused.
    """
    found = decode_row_or_refuse(row[0], sound_row(*row), decode_reservation_row)
    try:
        return reservation_of(found)
    except ValueError as error:
        what = f"a row of a reservation of {found.dataset} is damaged: {error}"
        raise LogDamaged(what) from error
