"""The operating system's lock on a ledger's file itself, whatever path leads to it.

Whoever closes any descriptor of a file lets go of all of the process' POSIX locks on it,
SQLite's among them. So no descriptor is closed here while the process has another one on the
same file: it is kept, and used again by the next lock.
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
    """The descriptors of ledgers' files that nobody uses and that cannot be closed yet."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew, such as in a forked process: what was kept is its parent's."""
        self.one_at_a_time = threading.Lock()
        self._kept: dict[FileIdentity, list[int]] = {}

    def open(self, path: Path) -> int:
        """Return a descriptor of a file, a kept one if there is one."""
        identity = identify(path)
        kept = None if identity is None else self._kept.get(identity)
        return kept.pop() if kept else os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def let_go(self, fd: int) -> None:
        """Close a descriptor, now or once that harms nobody."""
        self._kept.setdefault(FileIdentity.of(os.fstat(fd)), []).append(fd)
        used = _used_beside({fd for kept in self._kept.values() for fd in kept})
        if used is None:
            return
        for identity in self._kept.keys() - used:
            for unused in self._kept.pop(identity):
                os.close(unused)


def _used_beside(kept: set[int]) -> set[FileIdentity] | None:
    """Return which files this process has open, leaving some descriptors out; None if unknown."""
    try:
        fds = {int(entry.name) for entry in _OPEN_FILES.iterdir()} - kept
    except OSError:
        return None
    used = set()
    for fd in fds:
        with contextlib.suppress(OSError):  # closed meanwhile, as the listing's own is
            used.add(FileIdentity.of(os.fstat(fd)))
    return used


_descriptors: Final = _Descriptors()
os.register_at_fork(after_in_child=_descriptors.forget)


class InodeLock:
    """A lock that one file has, by however many paths it can be reached.

    Only Linux keeps it apart from the locks that SQLite takes; elsewhere, and where the file
    system knows no such lock, nothing is locked.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        self._process = 0

    def take(self) -> FileIdentity | None:
        """Take the lock; return which file it is on, None if somebody else holds it.

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
                # Such as NFS, which wants a descriptor to write with; the lock beside the file
                # and the owner's epoch are what there is.
                pass
            self._fd, self._process = fd, os.getpid()
            return FileIdentity.of(os.fstat(fd))

    def release(self) -> None:
        """Let go of the lock. This process has closed its own connections to the file."""
        fd, self._fd = self._fd, None
        if fd is None:
            return
        if self._process != os.getpid():
            os.close(fd)  # a copy that a fork has made: the lock is the parent's
            return
        with _descriptors.one_at_a_time:
            with contextlib.suppress(OSError):
                fcntl.flock(fd, fcntl.LOCK_UN)
            _descriptors.let_go(fd)
