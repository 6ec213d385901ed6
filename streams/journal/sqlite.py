"""A journal in one SQLite file: one writer, one transaction a batch, synced to disk."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import apsw

from accountant.inputs import Input
from accountant.records import Source
from streams.errors import CommitUnknown, Fenced, JournalFault, Refused, Unavailable
from streams.journal.inbox import Inputs
from streams.journal.port import Commit
from streams.journal.sqlite_file import DEAD_LETTER_BYTES, connect_writer

_PAGE = 1000  # decisions or rows fetched at a time


class SqliteJournal:
    """The only partition of an embedded ledger.

    Every call runs in the thread that it is awaited in, which becomes the writer thread: a
    commit blocks it until the disk has the bytes. An I/O error leaves the connection closed.

    Args:
        path: of the file, made by `sqlite_file.create`.
        inbox: where the inputs wait.
    """

    def __init__(self, path: Path, *, inbox: Inputs) -> None:
        self._path = path
        self._inbox = inbox
        self._db: apsw.Connection | None = None
        self._epoch = 0

    @property
    def partition(self) -> int:
        return 0

    async def own(self) -> None:
        db = self._db = connect_writer(self._path)
        try:
            db.execute("BEGIN IMMEDIATE")
            db.execute("UPDATE owner SET epoch = epoch + 1")
            self._epoch = int(db.execute("SELECT epoch FROM owner").get)
            db.execute("COMMIT")
        except apsw.Error as error:
            raise _translated(error) from error

    async def rows(self) -> AsyncIterator[tuple[bytes, bytes | None]]:
        for key, value in self._connection.execute("SELECT key, value FROM state ORDER BY key"):
            yield bytes(key), bytes(value)

    async def decisions(self, since: int | None) -> AsyncIterator[bytes]:
        db = self._connection
        try:
            if since is None:
                first = 0
            else:
                # decided_at never falls along the log, so the first one late enough starts it.
                found = db.execute(
                    "SELECT sequence FROM decisions WHERE decided_at >= ? "
                    "ORDER BY decided_at, sequence LIMIT 1",
                    (since,),
                ).get
                last = db.execute("SELECT max(sequence) FROM decisions").get
                first = int(last or 0) if found is None else int(found)
            while True:
                page = db.execute(
                    "SELECT value FROM decisions WHERE sequence >= ? ORDER BY sequence LIMIT ?",
                    (first, _PAGE),
                ).fetchall()
                for (value,) in page:
                    assert isinstance(value, bytes)
                    yield value
                if len(page) < _PAGE:
                    return
                first += _PAGE
        except apsw.Error as error:
            raise _translated(error) from error

    async def seek(self, offsets: Mapping[Source, int]) -> None:
        self._inbox.seek(offsets)

    async def read(self, most: int, wait: float) -> list[Input]:
        return await self._inbox.take(most, wait)

    async def commit(self, commit: Commit) -> None:
        db = self._connection
        try:
            db.execute("BEGIN IMMEDIATE")
            epoch = int(db.execute("SELECT epoch FROM owner").get)
            if epoch != self._epoch:
                raise Fenced(f"another process owns {self._path} now")
            db.executemany(
                "INSERT INTO decisions (sequence, decided_at, value) VALUES (?, ?, ?)",
                [(e.decision.partition_sequence, e.timestamp, e.value) for e in commit.decisions],
            )
            written = [row for row in commit.rows if row[1] is not None]
            db.executemany("INSERT OR REPLACE INTO state (key, value) VALUES (?, ?)", written)
            deleted = [(key,) for key, value in commit.rows if value is None]
            db.executemany("DELETE FROM state WHERE key = ?", deleted)
            db.executemany(
                "INSERT INTO dead_letters (source, offset, reason, value) VALUES (?, ?, ?, ?)",
                [
                    (r.source, r.offset, reason, (r.value or b"")[:DEAD_LETTER_BYTES])
                    for r, reason in commit.dead_letters
                ],
            )
            db.execute("COMMIT")
        except apsw.Error as error:
            raise _translated(error, committing=True) from error

    async def drop(self) -> None:
        db, self._db = self._db, None
        if db is None:
            return
        try:
            if db.in_transaction:
                db.execute("ROLLBACK")
            db.close()
        except apsw.Error:
            pass  # the file itself is the truth; the next owner reads it anew

    @property
    def _connection(self) -> apsw.Connection:
        if self._db is None:
            raise Unavailable(f"{self._path} is not open")
        return self._db


def _translated(error: apsw.Error, *, committing: bool = False) -> JournalFault | Refused:
    what = f"{type(error).__name__}: {error}"
    if isinstance(error, apsw.FullError):
        return Unavailable(f"the disk is full ({what}): make room, nothing was decided")
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return Refused(f"the file is damaged ({what}): restore it, then run `accountant audit`")
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return Unavailable(f"the file is in use ({what})")
    return CommitUnknown(what) if committing else Unavailable(what)
