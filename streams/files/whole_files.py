"""Files that appear under their name as a whole, or not at all.

A process that is killed while it writes leaves a partial file. The next process that writes into
the directory removes it.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from streams.files.abandoned import lock_new, remove_abandoned
from streams.files.owners import CREATE, give_to_owner_of

_PARTIAL: Final = ".accountant-partial"
_numbers = itertools.count()
_cleaned = set[tuple[int, Path]]()


@contextlib.contextmanager
def write_whole(
    path: Path, *, replace: bool = False, mode: int = 0o600, of_service: bool = False
) -> Iterator[BinaryIO]:
    """Write a file; it is on the disk under its name when the block ends without an error.

    Args:
        replace: replace an existing file, whose owner stays; a link stays a link.
        mode: of the file from its first byte, without what the umask takes.
        of_service: root gives a new file to the owner of its directory, whose service reads it.

    Raises: FileExistsError: before the block, or after it where another process was faster.
        OSError: it cannot be written.
    """
    target = path.resolve() if replace else path
    if not replace and os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    _remove_abandoned_once(target.parent)
    partial, file = _new(target, mode)
    try:
        with file:
            yield file
            file.flush()
            if of_service and not target.exists():
                give_to_owner_of(target.parent, file.fileno())
            if replace:
                _keep_owner(file.fileno(), target)
            os.fsync(file.fileno())
            if replace:
                partial.rename(target)
            else:
                target.hardlink_to(partial)  # unlike a rename, this never replaces another file
                partial.unlink()
            sync_directory(target.parent)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def _new(target: Path, mode: int) -> tuple[Path, BinaryIO]:
    """Return a new partial file, locked, and its path."""
    while True:
        number = next(_numbers)
        partial = target.with_name(f".{target.name}.{os.getpid()}-{number}{_PARTIAL}")
        try:
            fd = os.open(partial, CREATE, mode)
        except FileExistsError:
            continue  # of a killed process that had the same number
        file = os.fdopen(fd, "w+b")
        if lock_new(partial, fd):
            return partial, file
        file.close()


def _remove_abandoned_once(directory: Path) -> None:
    """Remove what killed processes left in a directory, at this process's first file there."""
    key = os.getpid(), directory
    if key in _cleaned:
        return
    _cleaned.add(key)
    with contextlib.suppress(OSError):
        for path in directory.glob(f".*{_PARTIAL}"):
            with contextlib.suppress(OSError):
                remove_abandoned(path, Path.unlink)


def _keep_owner(fd: int, target: Path) -> None:
    """Keep the owner of a file that root changes: another user's server reads it."""
    with contextlib.suppress(FileNotFoundError):
        owner = target.stat()
        if owner.st_uid != os.geteuid():
            os.fchown(fd, owner.st_uid, owner.st_gid)


def sync_directory(folder: Path) -> None:
    """Write a directory's entries to the disk.

    Raises: OSError.
    """
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
