"""Locks an index that several processes might write."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from streams.index.usage_index import UnusableIndex


class IndexInUse(UnusableIndex):
    """Another process writes this index."""


class IndexLock:
    """Held while this process writes an index; beside the file, whose own locks are SQLite's.

    Raises:
        IndexInUse: another process, or another service of this one, holds it.
        UnusableIndex: the lock's file cannot be made.
    """

    def __init__(self, path: Path) -> None:
        beside = path.with_name(path.name + ".lock")
        try:
            self._fd: int | None = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UnusableIndex(f"{path} cannot be opened: {error}") from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.release()
            raise IndexInUse(f"{path} is kept by another process: give each its own") from error

    def release(self) -> None:
        """Release the lock. The lock file stays: after a removal two processes could hold locks."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)
