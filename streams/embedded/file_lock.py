"""Locks a ledger's file for one writer: a lock file next to it, and a lock on its inode."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import threading
import time
from pathlib import Path
from typing import IO, Final

from streams.clock import SystemClock
from streams.embedded.file_identity import FileIdentity, identify
from streams.errors import Refused
from streams.files.ledger_url import url_option
from streams.files.lock_holder import (
    LockHolder,
    find_flock_holder,
    read_holder,
    this_process,
    write_holder,
)

_ATTEMPTS: Final = 20
_POLL_S: Final = 0.01
_OPEN_FILES: Final = Path("/proc/self/fd")


class FileInUse(Refused):
    """Another process has this ledger's file open."""


class FileLock:
    """Locks a ledger's file while a process writes it.

    The lock file names the process that holds it; the lock on the inode works for every path to
    the file. The locks only give early, clear errors: safety comes from the owner's epoch, which
    each transaction checks.
    """

    def __init__(self, path: Path) -> None:
        self._ledger = path
        self._path = path.with_name(path.name + ".lock")
        self._file: IO[str] | None = None
        self._since = 0
        self._process = 0
        self._inode = InodeLock(path)

    def take(self) -> None:
        """Take the lock beside the ledger's file, which may still be missing.

        Raises:
            FileInUse: another process holds the lock; the message names it, and what to do.
            Refused: the directory does not exist.
            OSError: the lock's file cannot be made.
        """
        # Not in append mode: Linux would then ignore the offset of `os.pwrite` in `publish`.
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError as error:
            directory = self._path.parent
            if directory.exists():  # the lock's file is a symlink that leads nowhere
                raise
            why = f"the directory {directory} does not exist; make it, or correct the path"
            raise Refused(f"{self._ledger} cannot be opened: {why}") from error
        # Earlier versions made it readable, and a user who can read it can lock it.
        with contextlib.suppress(OSError):
            os.fchmod(fd, 0o600)
        file = os.fdopen(fd, "r+", encoding="utf-8")
        try:
            self._lock(file)
        except OSError as error:
            holder = self.owner() or LockHolder()
            file.close()
            raise FileInUse(self._in_use_message(holder)) from error
        self._since, self._process = SystemClock().now(), os.getpid()
        self._file = file
        self.publish(None)

    def take_file(self) -> FileIdentity:
        """Take the lock on the ledger's file, which must exist, and return the file's identity.

        Raises: FileInUse: another process holds the lock. Refused: the file cannot be opened.
        """
        try:
            identity = self._inode.take()
        except OSError as error:
            raise Refused(f"{self._ledger} cannot be opened: {error}") from error
        if identity is None:
            raise FileInUse(self._in_use_elsewhere_message())
        return identity

    def _in_use_message(self, holder: LockHolder) -> str:
        what = f"{holder} has {self._ledger} open{holder.since_words}"
        if holder.address:
            return f"{what}. Use it at {holder.address}"
        return (
            f"{what}. End it first. To let both use the file, run `accountant serve "
            f"{url_option(self._ledger)}`: programs with this URL then find the server by "
            "themselves"
        )

    def _in_use_elsewhere_message(self) -> str:
        found = identify(self._ledger)
        holder = LockHolder() if found is None else find_flock_holder(*found)
        return (
            f"{holder} has {self._ledger} open by another path (a link or a mount), "
            f"or {self._path.name} was removed while it runs. End that process first"
        )

    def _lock(self, file: IO[str]) -> None:
        for attempts_left in range(_ATTEMPTS, -1, -1):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                # A process that calls `owner` also holds the lock for a moment.
                if not attempts_left or self.owner() is not None:
                    raise
            time.sleep(_POLL_S)

    def publish(self, address: str | None) -> None:
        """Write this process and the address of its server into the lock's file."""
        file = self._file
        assert file is not None
        write_holder(file.fileno(), this_process(self._since, address))

    def owner(self) -> LockHolder | None:
        """Return the process that holds the lock, None if the lock is free."""
        try:
            with self._path.open("rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except OSError:
                    return read_holder(file.fileno())
        except FileNotFoundError:
            return None
        return None

    def release(self) -> None:
        """Release both locks. Call it after the last connection to the file is closed."""
        self._inode.release()
        file, self._file = self._file, None
        if file is not None:
            if self._process == os.getpid():  # else a fork copied it; the parent keeps the lock
                with contextlib.suppress(OSError):
                    # The next holder of the lock has another address.
                    os.truncate(file.fileno(), 0)
            with contextlib.suppress(OSError):
                file.close()


class _Descriptors:
    """Keeps unused descriptors of ledgers' files open while they cannot be closed.

    A close of any descriptor of a file drops the POSIX locks that SQLite holds on that file for
    this whole process. So a descriptor is closed only once no other one uses the same file.
    """

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

    def close(self, fd: int) -> None:
        """Close a descriptor once the process uses no other one on the same file."""
        self._kept.setdefault(FileIdentity.of(os.fstat(fd)), []).append(fd)
        used = _files_of_others({fd for kept in self._kept.values() for fd in kept})
        if used is None:
            return
        for identity in self._kept.keys() - used:
            for unused in self._kept.pop(identity):
                os.close(unused)


def _files_of_others(ours: set[int]) -> set[FileIdentity] | None:
    """Return the files that this process has open beside the `ours` ones, None if unknown."""
    try:
        fds = {int(entry.name) for entry in _OPEN_FILES.iterdir()} - ours
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
                _descriptors.close(fd)
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
            _descriptors.close(fd)
