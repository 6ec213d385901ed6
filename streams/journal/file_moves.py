"""Whether a name on the way to a file was moved, removed or replaced, as Linux notes it."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from streams.journal.mounts import HERE, mounted

# inotify tells what this kernel did; what another machine did to a shared directory it cannot.
# Nor that a subvolume (btrfs, zfs) was deleted or rolled back: that removes no file.
_LOCAL: Final = frozenset({b"ext2", b"ext3", b"ext4", b"f2fs", b"overlay", b"tmpfs", b"xfs"})
_ATTRIBUTES: Final = 0x004  # IN_ATTRIB: also of the number of names, which a removal changes
_REMOVED: Final = 0x400  # IN_DELETE_SELF
_MOVED: Final = 0x800  # IN_MOVE_SELF
_EVENT: Final = struct.Struct("=iIII")  # watch, what, cookie, length of the name that follows
_MOST_READ: Final = 65_536


class FileMoves:
    """Notes whatever may make paths lead elsewhere; asked by one thread at a time.

    It sees renames and removals of the files and of every directory above them, and what is
    mounted or unmounted. Not seen is that a directory on which something is mounted was moved
    from within another view of the mounts (a container's host): who relies on this has to look
    now and then all the same.

    Raises: OSError: this cannot be told of these paths here: no Linux, a symlink on the way, a
        directory that cannot be read, a file system that is shared or has subvolumes, too many
        watches of this user.
    """

    def __init__(self, paths: Sequence[Path], *, mounts: Path = HERE) -> None:
        self._paths = paths
        self._table = mounts
        self._poll = select.poll()
        self._noted: int | None = _called("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
        self._mounts: int | None = None
        try:
            self._mounts = os.open(mounts, os.O_RDONLY)
            self._poll.register(self._noted, select.POLLIN)
            self._poll.register(self._mounts, select.POLLPRI)
            for path in paths:
                self._watch(path, _ATTRIBUTES | _REMOVED | _MOVED)
            for directory in {above for path in paths for above in path.parents}:
                self._watch(directory, _REMOVED | _MOVED)
            self._check()  # behind the watches: what changes from here on is noted
        except BaseException:
            self.close()
            raise

    def _watch(self, path: Path, events: int) -> None:
        try:
            _called("inotify_add_watch", self._noted, os.fsencode(path), events)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from None

    def _check(self) -> None:
        mounts = list(mounted(self._table))
        for path in self._paths:
            if os.path.realpath(path) != os.fspath(path):
                raise OSError(errno.EINVAL, "not the real path", str(path))
            above = {os.fsencode(directory) for directory in path.parents}
            kinds = {each.kind for each in mounts if each.point in above}
            if not kinds or kinds - _LOCAL:
                raise OSError(errno.EOPNOTSUPP, f"on {sorted(kinds - _LOCAL)}", str(path))

    def none(self) -> bool:
        """Tell whether nothing was noted since this was made or asked.

        Once a directory or file was moved or removed, never again: what may stand in its place
        is not watched.
        """
        if self._noted is None:
            return False
        ready = dict(self._poll.poll(0))
        if not ready:
            return True
        try:
            # SQLite, opened by root, sets the owner of a WAL again: that is no move.
            if self._noted in ready and any(what != _ATTRIBUTES for what in self._events()):
                self.close()
            if self._mounts in ready:
                self._check()
        except OSError:
            self.close()
        return False

    def _events(self) -> Iterator[int]:
        assert self._noted is not None
        noted = os.read(self._noted, _MOST_READ)
        while noted:
            _, what, _, length = _EVENT.unpack_from(noted)
            yield what
            noted = noted[_EVENT.size + length :]

    def close(self) -> None:
        """Note nothing any more."""
        for descriptor in (self._noted, self._mounts):
            if descriptor is not None:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        self._noted = self._mounts = None


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
