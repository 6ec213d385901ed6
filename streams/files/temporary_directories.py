"""Directories of this process; whoever makes one removes those that killed processes have left."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from streams.files.abandoned import lock_new, remove_abandoned
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
SPILL: Final = "accountant-spill-"
"""Of rows of a source that do not fit into memory."""
DEMO: Final = "accountant-demo-"
EVIDENCE: Final = ".accountant-evidence-"
"""Of a folder of evidence that is not whole yet."""
ANSWERS: Final = "accountant-answers-"
"""Of a copy of the answers."""
_DIRECTORY: Final = os.O_DIRECTORY


@contextlib.contextmanager
def temporary_directory(prefix: str, parent: Path | None = None) -> Iterator[str]:
    """Make a directory that only this user can read; remove it, and abandoned ones before.

    Args:
        parent: where it is made, by default in the directory for temporary files.

    Raises: OSError.
    """
    remove_abandoned_directories(prefix, parent)
    path, fd = _make_locked_directory(prefix, parent)
    try:
        yield str(path)
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(fd)


def remove_abandoned_directories(prefix: str, parent: Path | None = None) -> None:
    """Remove this user's directories that no process holds: their processes were killed."""
    try:
        found = list((parent or Path(tempfile.gettempdir())).glob(f"{prefix}*"))
    except OSError:
        return
    for path in found:
        with contextlib.suppress(OSError):
            if remove_abandoned(path, shutil.rmtree, flags=_DIRECTORY):
                _log.warning("directory_removed", directory=str(path), why="its process was killed")


def _make_locked_directory(prefix: str, parent: Path | None) -> tuple[Path, int]:
    """Return a new directory and the descriptor that holds it."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        with contextlib.ExitStack() as stack, contextlib.suppress(FileNotFoundError):
            fd = os.open(path, os.O_RDONLY | _DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            stack.callback(os.close, fd)
            if lock_new(path, fd):
                stack.pop_all()
                return path, fd
