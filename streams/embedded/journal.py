"""A journal in one SQLite file: one writer, one transaction a batch, synced to disk."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw

from accountant.records import Source
from accountant.records.inputs import Input
from accountant.replay.sealed_log import SealSnapshot
from streams.embedded.file_identity import FileIdentity, WatchedPath, identify
from streams.embedded.last_places import last_places
from streams.embedded.ledger_file import (
    ADMINISTERED,
    ROWS,
    connect_writer,
    crc_of,
    flaw_of_row,
    numbered_decisions,
)
from streams.embedded.queue import InputQueue
from streams.embedded.sealed_log import first_unarchived, read_sealed, write_sealed
from streams.embedded.wal_checkpoints import NO_END, Checkpoints, End
from streams.error_words import write_words
from streams.errors import CommitUnknown, Fenced, JournalFault, Refused, Unavailable
from streams.processing.journal import DEAD_LETTER_BYTES, Commit, DeadLetter, decided_at

_PAGE = 1000  # rows fetched at a time
_LAST = "SELECT sequence, value FROM decisions"
_DECIDED_AT = "SELECT CAST(value AS BLOB) FROM decisions WHERE decided_at = ?"
_DAMAGED = "the ledger's file is damaged ({}): restore it, then run `accountant audit`"


class SqliteJournal:
    """The only partition of an embedded ledger.

    Every call runs in the thread that awaits it, one at a time: a commit blocks that thread until
    the disk has the bytes. An I/O error leaves the connection closed.

    Args:
        path: the path of the file, made by `ledger_file.create`.
        inbox: the queue of the inputs.
        file: the only file to own, even if the path leads to another one later; None for the file
            that the path leads to at the first `own`.
        index: path of the usage index, if there is one.
    """

    def __init__(
        self,
        path: Path,
        *,
        inbox: InputQueue,
        file: FileIdentity | None = None,
        index: Path | None = None,
    ) -> None:
        self._path = path
        self._index = index
        self._inbox = inbox
        self._file = file
        self._watched: tuple[WatchedPath, ...] = ()
        self._db: apsw.Connection | None = None
        self._epoch = 0
        self._version: int | None = None  # SQLite's data version after this connection's commit
        self._end = NO_END  # the log's last decision that this process has read or committed
        self._checkpoints: Checkpoints | None = None

    @property
    def partition(self) -> int:
        return 0

    @property
    def gapless(self) -> bool:
        """True: the queue numbers its inputs one by one."""
        return True

    async def own(self) -> None:
        file = identify(self._path)
        if self._file is None:
            self._file = file
        elif file != self._file:
            raise self._file_gone
        self._version = None  # data versions of two connections cannot be compared
        try:
            db = self._db = connect_writer(self._path)
            wal = identify(db.filename_wal)
            paths = (self._path, self._file), (db.filename_wal, wal)
            self._watched = tuple(WatchedPath(path, identity) for path, identity in paths)
            db.execute("BEGIN IMMEDIATE")
            db.execute("UPDATE owner SET epoch = epoch + 1")
            self._epoch = int(db.execute("SELECT epoch FROM owner").get)
            kept = self._end == NO_END or _holds(db, self._end)
            self._end = _end_of(db)
            db.execute("COMMIT")
            self._checkpoints = Checkpoints(db, self._path, self._end, first_unarchived(db))
            has_wal = wal is not None or db.pragma("journal_mode") != "wal"
            # `kept` is false if a WAL with answered decisions was lost since the last `own`, or if
            # an older copy of the file has replaced it.
            if not kept or not has_wal or not self._in_place():
                raise self._file_gone
        except apsw.Error as error:
            raise self._translated(error) from error

    def _in_place(self) -> bool:
        """Return whether a process that opens the path finds the commits of this one."""
        return all(path.is_same() for path in self._watched)

    @property
    def _file_gone(self) -> Refused:
        return Refused(
            f"{self._path} or its -wal was removed or replaced while in use, so this batch and all "
            "later requests get no answer. Restore the file, run `accountant audit`, then start "
            "the ledger again"
        )

    @property
    def _older_copy(self) -> Refused:
        return Refused(
            f"{self._path} no longer ends with the decisions that this process has written: an "
            "older copy has replaced it while the ledger was running. This batch and all later "
            "requests get no answer, and the file lacks the grants since that copy. Stop the "
            "ledger, restore the newest copy, run `accountant audit`, then start the ledger again"
        )

    async def rows(self) -> AsyncIterator[tuple[bytes, bytes | None]]:
        db, after = self._connection, b""
        try:
            while True:
                query = f"{ROWS} WHERE key > ? ORDER BY key LIMIT ?"
                page: list[tuple[Any, ...]] = db.execute(query, (after, _PAGE)).fetchall()
                for key, kind, value, crc in page:
                    # SQLite does not check its pages. A row damaged on disk counts as missing: the
                    # replay makes it again from the log, whose hash chain covers every byte.
                    sound = flaw_of_row(key, kind, value, crc) is None
                    yield key, value if sound else None
                if len(page) < _PAGE:
                    return
                after = page[-1][0]
        except apsw.Error as error:
            raise self._translated(error) from error

    async def decisions(self, since: int | None) -> AsyncIterator[bytes]:
        db = self._connection
        try:
            first = 0 if since is None else first_since(db, since)
            for _, value in numbered_decisions(db, first=first):
                yield value
        except apsw.Error as error:
            raise self._translated(error) from error

    async def read_snapshot(self) -> SealSnapshot | None:
        try:
            return read_sealed(self._connection)
        except apsw.Error as error:
            raise self._translated(error) from error

    @property
    def first_unarchived(self) -> int:
        """Number of the first decision that was not archived, 0 if none was archived."""
        return first_unarchived(self._connection)

    def first_since(self, since: int) -> int:
        """Return the number of the first decision made at or after `since`, at most the last.

        Raises: as `decisions`.
        """
        try:
            return first_since(self._connection, since)
        except apsw.Error as error:
            raise self._translated(error) from error

    async def seal(self, commit: Commit, sealed: SealSnapshot, archived: int) -> None:
        """Commit a seal, and in the same transaction delete the decisions up to `archived`.

        Raises: as `commit`.
        """
        await self._transact(commit, lambda db: write_sealed(db, sealed, archived))

    async def shrink(self) -> None:
        """Free the disk space of deleted decisions.

        Raises: Unavailable: the disk has no room for a copy of the rest; nothing is lost.
        """
        db = self._connection
        try:
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except apsw.Error as error:
            raise self._translated(error) from error

    async def last_decisions(self, changed_at: Mapping[str, int]) -> list[bytes]:
        db, found = self._connection, list[bytes]()
        try:
            places = [] if self._index is None else last_places(self._index, db, changed_at)
            for place in places:
                found += [value for _, value in numbered_decisions(db, first=place, limit=1)]
            for at in sorted(set(changed_at.values())):
                rows: Any = db.execute(_DECIDED_AT, (at,))
                found += [bytes(value) for (value,) in rows]
        except apsw.Error as error:
            raise self._translated(error) from error
        return found

    async def admin_decisions(self) -> list[bytes]:
        try:
            rows: Any = self._connection.execute(ADMINISTERED)
            return [bytes(value) for (value,) in rows]
        except apsw.Error as error:
            raise self._translated(error) from error

    async def seek(self, offsets: Mapping[Source, int]) -> None:
        self._inbox.seek(offsets)

    async def read(self, limit: int, wait: float) -> list[Input]:
        return await self._inbox.take(limit, wait)

    async def commit(self, commit: Commit) -> None:
        await self._transact(commit, _nothing_else)

    async def _transact(self, commit: Commit, also: Callable[[apsw.Connection], None]) -> None:
        db = self._connection
        try:
            db.execute("BEGIN IMMEDIATE")
            # SQLite changes the data version when another connection has committed, since it must
            # then drop its cached pages. The same version means the same epoch.
            if db.data_version() != self._version:
                self._check_still_ours(db)
            db.executemany(
                "INSERT INTO decisions (sequence, decided_at, value) VALUES (?, ?, ?)",
                [(e.partition_sequence, e.decided_at, e.value) for e in commit.decisions],
            )
            db.executemany(
                "INSERT OR REPLACE INTO state (key, value, crc) VALUES (?, ?, ?)",
                [(key, row, crc_of(key, row)) for key, row in commit.rows if row is not None],
            )
            deleted = [(key,) for key, value in commit.rows if value is None]
            if deleted:
                db.executemany("DELETE FROM state WHERE key = ?", deleted)
            if commit.dead_letters:
                _insert_dead_letters(db, commit.dead_letters)
            also(db)
            db.execute("COMMIT")
            self._version = db.data_version()
            # Check the path after COMMIT, before anyone gets an answer: a process that opens the
            # path must find every acknowledged decision.
            if not self._in_place():
                raise self._file_gone
            if commit.decisions:
                last = commit.decisions[-1]
                self._end = last.partition_sequence, last.value
            if self._checkpoints is not None and not self._checkpoints.keeps(self._end):
                raise self._older_copy
        except apsw.Error as error:
            raise self._translated(error, committing=True) from error

    def _check_still_ours(self, db: apsw.Connection) -> None:
        """Raise if another connection has taken the file over, or put other contents into it.

        Raises: Fenced, Refused: the open transaction is rolled back.
        """
        epoch = int(db.execute("SELECT epoch FROM owner").get or 0)
        if epoch == self._epoch and _end_of(db) == self._end:
            return
        db.execute("ROLLBACK")
        # An epoch only grows, unless an older copy of the file takes its place.
        if epoch > self._epoch:
            raise Fenced(f"another process owns {self._path} now")
        raise self._older_copy

    async def drop(self) -> None:
        db, self._db = self._db, None
        if db is None:
            return
        # Ignore errors: the file is authoritative, and the next owner reads it again.
        with contextlib.suppress(apsw.Error):
            if db.in_transaction:
                db.execute("ROLLBACK")
            # If only the file's name was removed, a checkpoint can still save all answered
            # decisions into the file. Not if another file has the path: its users share the -wal.
            if not self._in_place() and identify(self._path) in (None, self._file):
                db.execute("PRAGMA wal_checkpoint(FULL)")
        with contextlib.suppress(apsw.Error):
            db.close()

    def _translated(self, error: apsw.Error, *, committing: bool = False) -> JournalFault | Refused:
        return _translate_error(error, self._path, committing=committing)

    @property
    def _connection(self) -> apsw.Connection:
        if self._db is None:
            raise Unavailable(f"{self._path} is not open")
        return self._db


def _nothing_else(_db: apsw.Connection) -> None:
    pass


def _end_of(db: apsw.Connection) -> End:
    """Return the last decision of the log."""
    return next(iter(db.execute(f"{_LAST} ORDER BY sequence DESC LIMIT 1")), NO_END)


def _holds(db: apsw.Connection, end: End) -> bool:
    """Return whether the log holds exactly this decision."""
    return next(iter(db.execute(f"{_LAST} WHERE sequence = ?", (end[0],))), None) == end


def _insert_dead_letters(db: apsw.Connection, letters: Sequence[DeadLetter]) -> None:
    db.executemany(
        "INSERT INTO dead_letters (source, offset, reason, value) VALUES (?, ?, ?, ?)",
        [
            (r.source, r.offset, reason, (r.value or b"")[:DEAD_LETTER_BYTES])
            for r, reason in letters
        ],
    )


def first_since(db: apsw.Connection, since: int) -> int:
    """Return the number of the first decision made at or after `since`, at most the last.

    Raises: Refused: the decision before it is missing.
    """
    # After a clock reset decided_at is lower: take the first in the log, not the lowest time.
    found = db.execute("SELECT min(sequence) FROM decisions WHERE decided_at >= ?", (since,)).get
    if found is None:
        found = db.execute("SELECT max(sequence) FROM decisions").get
    first = int(found or 0)
    # The hash chain does not cover the index. With a damaged index the partition could forget ids
    # too soon, so check the decision before.
    while first > 0:
        before = dict(numbered_decisions(db, first=first - 1, limit=1)).get(first - 1)
        if before is None and first != first_unarchived(db):
            # The hash chain would not notice this gap: it is before the first decision read.
            raise Refused(_DAMAGED.format(f"decision {first - 1} is missing"))
        if before is None or decided_at(before) < since:
            break
        first -= 1
    return first


def _translate_error(
    error: apsw.Error, path: Path, *, committing: bool = False
) -> JournalFault | Refused:
    what = write_words(error, path)
    if isinstance(error, apsw.FullError):
        # SQLite has rolled the transaction back.
        return Unavailable(f"{what}. Free some space; nothing was decided")
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return Refused(_DAMAGED.format(what))
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return Unavailable(f"the file is in use ({what})")
    return CommitUnknown(what) if committing else Unavailable(what)
