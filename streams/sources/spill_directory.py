"""The directory for rows that do not fit into memory; whoever makes one removes abandoned ones.

A process that is killed cannot remove its directory. Its lock ends with it, so that the next
process can tell. The lock is on the directory itself: no second file can outlive it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_PREFIX: Final = "accountant-spill-"
_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def spill_directory() -> Iterator[str]:
    """Make a directory that only this user can read; remove it, and abandoned ones before.

    Raises: OSError.
    """
    remove_abandoned()
    path, fd = _make_locked_directory()
    try:
        yield str(path)
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(fd)


def remove_abandoned() -> None:
    """Remove this user's directories that no process holds: their processes were killed."""
    try:
        found = list(Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"))
    except OSError:
        return
    for path in found:
        with contextlib.suppress(OSError):
            _remove_abandoned(path)


def _remove_abandoned(path: Path) -> None:
    """Remove a directory unless a process holds it. Raises: OSError: it does, or it is gone."""
    fd = os.open(path, _OPEN)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(fd).st_uid == os.geteuid() and _is_at(path, fd):
            shutil.rmtree(path)
            _log.warning("spilled_rows_removed", directory=str(path), why="its process was killed")
    finally:
        os.close(fd)


def _make_locked_directory() -> tuple[Path, int]:
    """Return a new directory and the descriptor that holds it."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        with contextlib.ExitStack() as stack, contextlib.suppress(FileNotFoundError):
            fd = os.open(path, _OPEN)
            stack.callback(os.close, fd)
            # Another process may remove it before the lock, and never does after it.
            if _lock(fd) and _is_at(path, fd):
                stack.pop_all()
                return path, fd


def _lock(fd: int) -> bool:
    """Lock a new directory; return False where another process is about to remove it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # Where a file system has no locks, nobody gets one to remove it.
    return True


def _is_at(path: Path, fd: int) -> bool:
    """Tell whether a path still leads to an open directory. Raises: FileNotFoundError."""
    return os.path.samestat(path.stat(follow_symlinks=False), os.fstat(fd))
