"""Files that only their user can read, whatever the umask is."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from streams.logs import get_logger

_log = get_logger(__name__)
_SUFFIXES = ("", "-wal", "-shm")


def make_private(path: Path, mode: int = 0o600) -> None:
    """Create an empty file with a mode; an existing file stays as it is.

    SQLite gives its -wal and -shm files the mode of the database file.
    Raises: OSError.
    """
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return
    try:
        os.fchmod(fd, mode)
    finally:
        os.close(fd)


def file_mode(path: Path) -> int | None:
    """Return the mode of a file, None if it does not exist."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None


def ensure_private(*databases: Path) -> None:
    """Create missing SQLite databases for their user only; log which files others can access."""
    for path in databases:
        with contextlib.suppress(OSError):  # opening the database reports a wrong path
            make_private(path)
    files = [path.with_name(path.name + end) for path in databases for end in _SUFFIXES]
    found = [file for file in files if (file_mode(file) or 0) & 0o077]
    if found:
        names = " ".join(map(str, found))
        _log.warning(
            "files_open_to_others",
            files=names,
            why="other users of this machine can read what this server does not show them",
            do=f"chmod 600 {names}",
        )
