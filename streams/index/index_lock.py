"""Locks an index that several processes might write."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from streams.clock import SystemClock
from streams.files.lock_holder import read_holder, this_process, write_holder
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
        self._process = os.getpid()
        beside = path.with_name(path.name + ".lock")
        try:
            self._fd: int | None = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UnusableIndex(f"{path} cannot be opened: {error}") from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = read_holder(self._fd)
            self._close()
            raise IndexInUse(
                f"{path} is in use: {holder} writes it{holder.since_words}. Give each its own"
            ) from error
        with contextlib.suppress(OSError):  # the note is for messages only
            write_holder(self._fd, this_process(SystemClock().now()))

    def release(self) -> None:
        """Release the lock. The lock file stays: after a removal two processes could hold locks."""
        if self._fd is not None and self._process == os.getpid():
            with contextlib.suppress(OSError):
                os.truncate(self._fd, 0)
        self._close()

    def _close(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)
