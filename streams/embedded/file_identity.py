"""The identity of the file at a path, which changes when the file is removed or replaced."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path
from typing import Any, Final, NamedTuple

_AT_FDCWD: Final = -100
_STATX_INO: Final = 0x100
_STATX_BYTES: Final = 256
# Of struct statx: stx_ino at 32, stx_dev_major and stx_dev_minor from 136 on.
_inode_and_device: Final = struct.Struct("=32xQ96xII").unpack_from


class FileIdentity(NamedTuple):
    """Device and inode: two names of one file share them, a file and its replacement do not."""

    device: int
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> FileIdentity:
        """Return the identity of the file that `found` describes."""
        return cls(found.st_dev, found.st_ino)


def identify(path: str | Path) -> FileIdentity | None:
    """Return the identity of the file at a path; follows symlinks, as SQLite does.

    Returns: None if the file is missing or cannot be examined.
    """
    try:
        return FileIdentity.of(Path(path).stat())
    except OSError:
        return None


class WatchedPath:
    """A path that must keep leading to the same file; one thread checks it at each commit.

    `stat` would also read the file's times, and from Linux 6.13 on each write after that must
    update them in the inode: a commit would take a sixth longer. So this reads the inode alone.
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
        """Return whether the path still leads to the same file."""
        if _statx is None or _statx(_AT_FDCWD, self._path_bytes, 0, _STATX_INO, self._address) != 0:
            return identify(self._path) == self._identity
        return _inode_and_device(self._found) == self._expected


def _find_statx() -> Any:
    """Return Linux' statx, None where the C library has none."""
    try:
        statx = ctypes.CDLL(None).statx
    except (OSError, AttributeError):
        return None
    number, unsigned, pointer = ctypes.c_int, ctypes.c_uint, ctypes.c_void_p
    statx.argtypes = [number, ctypes.c_char_p, number, unsigned, pointer]
    return statx


_statx: Final = _find_statx()
