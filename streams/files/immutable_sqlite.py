"""Reads SQLite files that others may write, without leaving a -wal or -shm file."""

from __future__ import annotations

import os
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


def open_shared(path: Path) -> apsw.Connection:
    """Open a file for reading alone, beside processes that may write it.

    SQLite makes a -wal and a -shm beside a file that nobody has open. Only a connection that may
    write removes them at its end, under SQLite's own locks, so this one may, and writes nothing. A
    -wal that a killed process has left stays as it is.
    """
    if has_wal(path):
        return apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        db.pragma("query_only", True)
    except BaseException:
        db.close()
        raise
    return db


def reads_in_place(path: Path) -> bool:
    """Tell whether no process has a file open, and SQLite could not remove its own files."""
    return not has_wal(path) and not os.access(path, os.W_OK)
