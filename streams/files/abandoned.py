"""Tells what a killed process has left: its lock ends with it.

Each process locks what it makes and means to remove. The lock is on the file or the directory
itself: no second file can outlive it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

_EXISTING: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def lock_new(path: Path, fd: int) -> bool:
    """Lock what this process has just made; False if another one has removed it before."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # Where a file system has no locks, nobody gets one to remove it.
    # Another process may remove it before the lock, and never does after it.
    return _is_at(path, fd)


def remove_abandoned(path: Path, remove: Callable[[Path], object], *, flags: int = 0) -> bool:
    """Remove this user's file or directory unless a process holds it; tell whether it was removed.

    Raises: OSError: a process holds it, it is gone, or no such thing.
    """
    fd = os.open(path, _EXISTING | flags)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(fd).st_uid != os.geteuid() or not _is_at(path, fd):
            return False
        remove(path)
        return True
    finally:
        os.close(fd)


def _is_at(path: Path, fd: int) -> bool:
    """Tell whether a path still leads to what is open."""
    try:
        return os.path.samestat(path.stat(follow_symlinks=False), os.fstat(fd))
    except FileNotFoundError:
        return False
