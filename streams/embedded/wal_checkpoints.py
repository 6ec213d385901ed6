"""SQLite checkpoints of a ledger's file. The owner makes them all, so it notices other writers.

In WAL mode a commit appends to the `-wal`; SQLite writes the main file at a checkpoint. If the main
file has changed and this process made no checkpoint, another program made one, or copied another
file over it (`cp backup.db ledger.db`). The copy loses decisions that were only in the main file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import apsw

from accountant.partition import hash_of
from accountant.records import DECODE_ERRORS, decode_decision
from streams.embedded.ledger_file import numbered_decisions

End = tuple[int, bytes]
"""The number and the bytes of a log's last decision."""
NO_END: Final[End] = (-1, b"")
"""The end of a log without decisions."""

_PAGES: Final = 1_000  # size of the WAL at which SQLite makes a checkpoint by default
# `_reads` starts this many decisions before the last checkpoint. They fill more than one page of
# the file: a later commit may have put the newest version of the last page into the WAL.
_BEFORE: Final = 64


class Checkpoints:
    """Makes one ledger's WAL checkpoints, and notices if another program wrote the main file.

    Args:
        db: the owner's connection; from here on this object makes its checkpoints.
        end: the end of the log; the main file holds all of the log now.
        begin: number of the first decision of the log's unbroken end.
    """

    def __init__(self, db: apsw.Connection, path: Path, end: End, begin: int = 0) -> None:
        self._path = path
        self._begin = begin
        self._whole = end[0]  # number of the last decision at the last checkpoint
        self._made = False
        self._mark = self._mark_now()
        db.set_wal_hook(self._on_commit)

    def _mark_now(self) -> tuple[int, int] | None:
        """Return a mark that each write of the main file changes, but no commit to the WAL."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size

    def _on_commit(self, db: apsw.Connection, _name: str, pages: int) -> int:
        # Make no checkpoint into a file that another program wrote: `keeps` checks it first.
        if pages >= _PAGES and self._mark_now() == self._mark:
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            self._made = True
        return apsw.SQLITE_OK

    def keeps(self, end: End) -> bool:
        """Return, after a commit, whether the file still holds the log up to this end.

        Raises: apsw.Error, Refused: the file is damaged, or cannot be read.
        """
        made, self._made = self._made, False
        mark = self._mark_now()
        if mark == self._mark:
            return True
        if not made and not self._reads(end):
            return False
        self._mark = mark
        if made:
            self._whole = end[0]
        return True

    def _reads(self, end: End) -> bool:
        """Return whether a new connection, which has no cached pages, finds the log's end."""
        first = max(self._begin, self._whole - _BEFORE)
        db = apsw.Connection(str(self._path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            last: End | None = None
            for number, value in numbered_decisions(db, first=first):
                if last is None:
                    goes_on = number == first
                else:
                    previous = decode_decision(value).previous
                    goes_on = number == last[0] + 1 and previous == hash_of(last[1])
                if not goes_on:
                    return False
                last = number, value
            return last == end
        except DECODE_ERRORS:
            return False
        finally:
            db.close()
