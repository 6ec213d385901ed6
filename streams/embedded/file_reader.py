"""Serves reads of a ledger's file without owning it; a writer may be at work."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw

from accountant.errors import BudgetError, LogDamaged
from accountant.partition import Partition
from accountant.partition.ids import identities_in
from accountant.records import Decision, Source, decode_decision
from accountant.records.decoding import decode_from_log
from accountant.records.header import DecisionHeader, decode_header
from accountant.records.inputs import CheckedInput
from accountant.records.parts import by_dataset
from accountant.replay.follow import FollowedPartition, OtherLog
from accountant.replay.replay import StateMismatch
from accountant.times import issued_at
from accountant.views.datasets import UNKNOWN, Alert
from streams.clock import Clock
from streams.embedded.copied_index import CopiedIndex
from streams.embedded.file_identity import FileIdentity, identify
from streams.embedded.ledger_file import (
    ROWS,
    numbered_decisions,
    reader,
    sound_row,
)
from streams.embedded.sealed_log import first_unarchived
from streams.embedded.sqlite_log import SqliteLog
from streams.errors import Gone, Refused, Unavailable
from streams.log.async_log import AsyncLog
from streams.service.ledger_reads import LedgerReads
from streams.service.ledger_service import Readiness, Submission

_AUDIT: Final = "`accountant audit` tells whether the rows of `state` or the decisions are wrong"
_READ_ONLY: Final = "this ledger was opened for readers alone: open it without `read_only`"

T = TypeVar("T")


class FileReader(LedgerReads):
    """A `LedgerService` that only reads a ledger's file.

    It takes no lock, makes no file and writes no byte; a writer may have the file open, in whose
    -shm SQLite marks what its readers have open. It starts from the rows of `state`, and moves
    the state on by the decisions after them: another call reads the log's new end alone. Any
    thread may call it; calls wait for one another.

    Args:
        path: absolute.
        index: the index of usage that is copied to begin with, where there is one.
    """

    def __init__(self, path: Path, clock: Clock, *, index: Path | None = None) -> None:
        self._path = path
        self._followed: FollowedPartition | None = None
        self._log = SqliteLog(path, traceless=True)
        self._copied_index = CopiedIndex(
            self._log, index, self, partition=self._partition, last=self._last_read
        )
        self._ledger_file: tuple[FileIdentity | None, bytes] | None = None
        self._one_at_a_time = threading.RLock()
        super().__init__(clock, self._copied_index, self._copied_index, AsyncLog(self._log))

    async def _read(self, read: Callable[..., T], *args: object) -> T:
        return await asyncio.to_thread(read, *args)

    async def in_thread(self, call: Callable[..., T], *args: Any) -> T:
        """As `read`, in another thread."""
        return await asyncio.to_thread(self.read, call, *args)

    def read(self, call: Callable[..., T], *args: Any) -> T:
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
        if found != self._ledger_file:
            self._forget()
            self._ledger_file = found

    def _forget(self) -> None:
        """Clear the cache."""
        self._ledger_file = self._followed = None
        self._copied_index.forget()

    def _partition(self, number: int = 0) -> Partition:
        return self.read(self._catch_up)

    def _last_read(self) -> int:
        followed = self._followed
        return UNKNOWN if followed is None else followed.state.sequence

    def _catch_up(self) -> Partition:
        """Return the state of the log's end.

        Raises: LogDamaged; Refused: a row is damaged, or as `numbered_decisions`.
        """
        with reader(self._path, traceless=True) as db:
            followed = self._followed or _from_rows(db)
            last = followed.state.sequence
            # The last decision again: is it still there?
            first, decisions = max(0, last), 0
            for sequence, value in numbered_decisions(db, first=first):
                decisions += 1
                try:
                    followed.take(decode_from_log(sequence, value, decode_header), value)
                except OtherLog as error:
                    raise LogDamaged(f"{error}: {_AUDIT}") from error
            if not decisions:
                raise LogDamaged(f"decision {first} of the log is missing")
        self._followed = followed
        return followed.state

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
        return await self.in_thread(self._find, dataset, caller, request_id)

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
        self.log.close()
        with self._one_at_a_time:
            self._forget()

    def _find(self, dataset: str, caller: str, request_id: str) -> bytes | None:
        if issued_at(request_id) is None:
            return None
        latest = None
        for value, line in self._lines(dataset, within=request_id.encode()):
            if line.sequence is not None and (dataset, caller, request_id) in identities_in(line):
                if not line.outcome.waits:
                    return value
                latest = value
        return latest

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


def _from_rows(db: apsw.Connection) -> FollowedPartition:
    """Return the state of the rows, or that before decision 0 where there are none.

    Raises: LogDamaged: the rows are not those of one moment. Refused: one is damaged.
    """
    with db:  # one transaction, so one moment
        rows = [(row[0], sound_row(*row)) for row in db.execute(ROWS)]
    if rows:
        try:
            return FollowedPartition.from_rows(0, rows)
        except StateMismatch as error:
            raise LogDamaged(f"{error}: {_AUDIT}") from error
    for number, value in numbered_decisions(db, limit=1):
        genesis = decode_from_log(number, value, decode_decision).genesis
        if genesis is not None:
            return FollowedPartition.from_beginning(genesis)
    raise LogDamaged("the log has no decision 0")
