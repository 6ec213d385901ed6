"""Files that are their user's alone, whatever the umask says."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from streams.logs import get_logger

_log = get_logger(__name__)
_BESIDE = ("", "-wal", "-shm")


def make_private(path: Path, mode: int = 0o600) -> None:
    """Make an empty file with a mode; keep an existing one as it is.

    What SQLite keeps beside a file has the file's own mode.
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
    """Return a file's mode, None where there is none."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None


def ensure_private(*databases: Path) -> None:
    """Have new SQLite databases be their user's alone; log, in one line, which files are not."""
    for path in databases:
        with contextlib.suppress(OSError):  # who opens it says what is wrong with its place
            make_private(path)
    files = [path.with_name(path.name + end) for path in databases for end in _BESIDE]
    found = [file for file in files if (file_mode(file) or 0) & 0o077]
    if found:
        names = " ".join(map(str, found))
        _log.warning(
            "files_open_to_others",
            files=names,
            why="whoever has a user on this machine reads there what this door would not show",
            do=f"chmod 600 {names}",
        )
