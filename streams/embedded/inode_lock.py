"""The operating system's lock on a ledger's file itself, whatever path leads to it.

When a process closes any descriptor of a file, it loses all its POSIX locks on that file,
SQLite's among them. So this module closes no descriptor while the process has another one on the
same file: it keeps the descriptor, and the next lock uses it again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import threading
from pathlib import Path
from typing import Final

from streams.embedded.file_identity import FileIdentity, identify

_OPEN_FILES: Final = Path("/proc/self/fd")


class _Descriptors:
    """Unused descriptors of ledgers' files that cannot be closed yet."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start empty, as a forked process must: the kept descriptors belong to its parent."""
        self.one_at_a_time = threading.Lock()
        self._kept: dict[FileIdentity, list[int]] = {}

    def open(self, path: Path) -> int:
        """Return a descriptor of a file: a kept one, or a new one."""
        identity = identify(path)
        kept = None if identity is None else self._kept.get(identity)
        return kept.pop() if kept else os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def let_go(self, fd: int) -> None:
        """Close a descriptor once the process uses no other one on the same file."""
        self._kept.setdefault(FileIdentity.of(os.fstat(fd)), []).append(fd)
        used = _used_beside({fd for kept in self._kept.values() for fd in kept})
        if used is None:
            return
        for identity in self._kept.keys() - used:
            for unused in self._kept.pop(identity):
                os.close(unused)


def _used_beside(kept: set[int]) -> set[FileIdentity] | None:
    """Return the files that this process has open beside the `kept` ones, None if unknown."""
    try:
        fds = {int(entry.name) for entry in _OPEN_FILES.iterdir()} - kept
    except OSError:
        return None
    used = set()
    for fd in fds:
        with contextlib.suppress(OSError):  # closed by now, like the listing's own descriptor
            used.add(FileIdentity.of(os.fstat(fd)))
    return used


_descriptors: Final = _Descriptors()
os.register_at_fork(after_in_child=_descriptors.forget)


class InodeLock:
    """A lock on one file, shared by all paths that lead to it.

    Only Linux keeps this lock apart from the locks that SQLite takes. On other systems, and on
    file systems without such locks, `take` locks nothing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        self._process = 0

    def take(self) -> FileIdentity | None:
        """Take the lock and return the file's identity, None if another process holds the lock.

        Raises: OSError: the file cannot be opened.
        """
        if sys.platform != "linux":
            return FileIdentity.of(self._path.stat())
        with _descriptors.one_at_a_time:
            fd = _descriptors.open(self._path)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                _descriptors.let_go(fd)
                return None
            except OSError:
                # The file system has no such lock, or wants a writable descriptor, as NFS does:
                # the lock beside the file and the owner's epoch remain.
                pass
            self._fd, self._process = fd, os.getpid()
            return FileIdentity.of(os.fstat(fd))

    def release(self) -> None:
        """Release the lock. The caller has closed this process' connections to the file."""
        fd, self._fd = self._fd, None
        if fd is None:
            return
        if self._process != os.getpid():
            os.close(fd)  # a fork copied this descriptor; the parent keeps the lock
            return
        with _descriptors.one_at_a_time:
            with contextlib.suppress(OSError):
                fcntl.flock(fd, fcntl.LOCK_UN)
            _descriptors.let_go(fd)
