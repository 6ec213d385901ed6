"""Open a ledger's file as the ledger does: with the same SQLite library.

Python's `sqlite3` is another one. In a process that has the file open, closing it releases the
locks of both, and opening it cuts the index of the write-ahead log, which ends the process with
a bus error when the ledger reads it at that moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw


@contextmanager
def connected(file: Path, *, read_only: bool = False) -> Iterator[apsw.Connection]:
    """Open a file, commit what was changed at the end, and close it."""
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    db = apsw.Connection(str(file), apsw.SQLITE_OPEN_READONLY if read_only else flags)
    try:
        with db:
            yield db
    finally:
        db.close()
