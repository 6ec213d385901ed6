"""Whether a name on the way to a file was moved, removed or replaced, as Linux notes it."""

from __future__ import annotations

import ctypes
import errno
import os
import select
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from streams.journal.mounts import HERE, mounted

# inotify tells what this kernel did. What another machine did to a shared directory it cannot.
_LOCAL: Final = frozenset(
    {b"btrfs", b"ext2", b"ext3", b"ext4", b"f2fs", b"overlay", b"tmpfs", b"xfs", b"zfs"}
)
_ATTRIBUTES: Final = 0x004  # IN_ATTRIB: also of the number of names, which a removal changes
_REMOVED: Final = 0x400  # IN_DELETE_SELF
_MOVED: Final = 0x800  # IN_MOVE_SELF


class FileMoves:
    """Notes whatever may make paths lead elsewhere; asked by one thread at a time.

    It sees renames and removals of the files and of every directory above them, but no file
    system that is mounted above them: who relies on it has to look now and then all the same.

    Raises: OSError: this cannot be told of these paths here: no Linux, a symlink on the way,
        a file system of the network, too many watches.
    """

    def __init__(self, paths: Sequence[Path], *, mounts: Path = HERE) -> None:
        for path in paths:
            _check(path, mounts)
        self._noted: int | None = _called("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._noted, select.POLLIN)
        try:
            for path in paths:
                self._watch(path, _ATTRIBUTES | _REMOVED | _MOVED)
            for directory in {above for path in paths for above in path.parents}:
                self._watch(directory, _REMOVED | _MOVED)
        except BaseException:
            self.close()
            raise

    def _watch(self, path: Path, events: int) -> None:
        try:
            _called("inotify_add_watch", self._noted, os.fsencode(path), events)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from None

    def none(self) -> bool:
        """Tell whether nothing was noted since this was made; once something was, never again."""
        if self._noted is None:
            return False
        if self._poll.poll(0):
            # Where a directory was moved and another put in its place, that is not watched.
            self.close()
            return False
        return True

    def close(self) -> None:
        """Note nothing any more."""
        noted, self._noted = self._noted, None
        if noted is not None:
            os.close(noted)


def _check(path: Path, mounts: Path) -> None:
    if not path.is_absolute() or os.path.realpath(path) != os.fspath(path):
        raise OSError(errno.EINVAL, "not the real path", str(path))
    above = {os.fsencode(directory) for directory in path.parents}
    kinds = {each.kind for each in mounted(mounts) if each.point in above}
    if not kinds or kinds - _LOCAL:
        raise OSError(errno.EOPNOTSUPP, f"on {sorted(kinds - _LOCAL)}", str(path))


def _called(name: str, *arguments: Any) -> int:
    """Return what a function of the C library returns.

    Raises: OSError: it failed, or is not there.
    """
    try:
        function = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (AttributeError, TypeError):
        raise OSError(errno.ENOSYS, f"there is no {name}") from None
    result: int = function(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
