"""Reads SQLite files that no process has open, without creating a -wal or -shm file."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import apsw

FileStamp = tuple[int, int, int]
"""Inode, size and modification time of a file that no process is writing."""


def has_wal(path: Path) -> bool:
    """Whether a file has a -wal: a process has it open, or was killed."""
    return path.with_name(f"{path.name}-wal").exists()


def file_stamp(path: Path) -> FileStamp | None:
    """Return a stamp that changes when the file is written; None if a -wal has part of it."""
    try:
        wal = path.with_name(f"{path.name}-wal")
        if wal.exists() and wal.stat().st_size:
            return None
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def open_immutable(path: Path) -> apsw.Connection:
    """Open a file read-only as it is on disk, ignoring a -wal."""
    address = f"file:{quote(str(path.absolute()))}?immutable=1"
    return apsw.Connection(address, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
