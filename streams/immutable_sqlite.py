"""SQLite files that nobody has open, read as they lie there: no file is made beside them."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import apsw

FileStamp = tuple[int, int, int]
"""The inode, size and time of change of a file that is not being written."""


def has_wal(path: Path) -> bool:
    """Return whether there is a -wal beside a file: a program has it open, or was killed."""
    return path.with_name(f"{path.name}-wal").exists()


def file_stamp(path: Path) -> FileStamp | None:
    """Return what changes if a file is written, None if a -wal holds a part of it."""
    try:
        wal = path.with_name(f"{path.name}-wal")
        if wal.exists() and wal.stat().st_size:
            return None
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def open_immutable(path: Path) -> apsw.Connection:
    """Open a file as it lies there, without what a -wal has of it."""
    address = f"file:{quote(str(path.absolute()))}?immutable=1"
    return apsw.Connection(address, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
