"""Which file a path leads to: one that was removed or replaced has another identity."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path
from typing import Any, Final, NamedTuple

_HERE: Final = -100  # AT_FDCWD
_INODE: Final = 0x100  # STATX_INO
_STATX_BYTES: Final = 256
# Of struct statx: stx_ino at 32, stx_dev_major and stx_dev_minor from 136 on.
_inode_and_device: Final = struct.Struct("=32xQ96xII").unpack_from


class FileIdentity(NamedTuple):
    """What two names of one file share, and two files at one path do not."""

    device: int
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> FileIdentity:
        """Return the identity of what a stat has found."""
        return cls(found.st_dev, found.st_ino)


def identify(path: str | Path) -> FileIdentity | None:
    """Return the identity of what a path leads to, through symlinks, as SQLite follows them.

    Returns: None if nothing is there, or nothing can be told about it.
    """
    try:
        return FileIdentity.of(Path(path).stat())
    except OSError:
        return None


class WatchedPath:
    """A path that should go on leading to the same file; asked at each commit, by one thread.

    A stat asks for the times as well, and from Linux 6.13 on each write after it has to note
    its own in the inode: a commit would take a sixth longer. This asks for the inode alone.
    """

    __slots__ = ("_address", "_expected", "_found", "_identity", "_path", "_path_bytes")

    def __init__(self, path: str | Path, identity: FileIdentity | None) -> None:
        self._path = path
        self._path_bytes = os.fsencode(path)
        self._identity = identity
        device, inode = identity or (0, 0)
        self._expected = inode, os.major(device), os.minor(device)
        self._found = ctypes.create_string_buffer(_STATX_BYTES)
        self._address = ctypes.addressof(self._found)

    def is_same(self) -> bool:
        """Tell whether the path leads to the file that it led to."""
        if _statx is None or _statx(_HERE, self._path_bytes, 0, _INODE, self._address) != 0:
            return identify(self._path) == self._identity
        return _inode_and_device(self._found) == self._expected


def _find_statx() -> Any:
    """Return Linux' statx, None where the C library has none."""
    try:
        statx = ctypes.CDLL(None).statx
    except (OSError, AttributeError):
        return None
    number, unsigned, place = ctypes.c_int, ctypes.c_uint, ctypes.c_void_p
    statx.argtypes = [number, ctypes.c_char_p, number, unsigned, place]
    return statx


_statx: Final = _find_statx()
