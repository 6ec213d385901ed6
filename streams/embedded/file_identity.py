"""Identifies the file at a path by device and inode, and checks its hard links and mounts."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from streams.embedded.ledger_file import leftovers, remove
from streams.errors import Refused

_AT_FDCWD: Final = -100
_STATX_INO: Final = 0x100
_STATX_BYTES: Final = 256
# Of struct statx: stx_ino at 32, stx_dev_major and stx_dev_minor from 136 on.
_inode_and_device: Final = struct.Struct("=32xQ96xII").unpack_from
MOUNT_TABLE: Final = Path("/proc/self/mountinfo")
_ESCAPED: Final = re.compile(rb"\\([0-7]{3})")


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


def mount_points(table: Path = MOUNT_TABLE) -> Iterator[bytes]:
    """Yield the path of each mounted directory or file.

    Raises: OSError: the table cannot be read, such as outside Linux.
    """
    for line in table.read_bytes().split(b"\n"):
        fields = line.split(b" ")
        if len(fields) > 4:
            yield _ESCAPED.sub(_unescaped, fields[4])


def _unescaped(found: re.Match[bytes]) -> bytes:
    return bytes([int(found[1], 8)])


def check_only_name(path: Path, file: FileIdentity) -> None:
    """Raise unless the file has one name; remove the files that a killed `create` left first.

    Args:
        file: the identity of the file; the caller holds its lock.
    Raises: Refused: the file has a second name.
    """
    if _names(path) > 1:
        for place in {path, Path(os.path.realpath(path))}:
            with contextlib.suppress(OSError):
                for leftover in leftovers(place):
                    if identify(leftover) == file and not _has_wal(leftover):
                        remove(leftover)
    if (names := _names(path)) > 1:
        raise Refused(
            f"{path} has {names} names (hard links), and its newest decisions may be in a -wal "
            "file next to only one of them. Stop every process that has it open, keep the name "
            f"with a -wal, and remove the others: `find DIR -xdev -samefile {path}` lists them"
        )


def _names(path: Path) -> int:
    try:
        return path.stat().st_nlink
    except OSError as error:
        raise Refused(f"{path} cannot be opened: {error}") from error


def _has_wal(path: Path) -> bool:
    wal = path.with_name(path.name + "-wal")
    return wal.exists() and wal.stat().st_size > 0


def check_mount(path: Path, *, mounts: Path = MOUNT_TABLE) -> None:
    """Raise if the file exists and is mounted alone, without its directory.

    Args:
        mounts: a table of mount points in the format of `/proc/self/mountinfo`.
    Raises: Refused.
    """
    if _is_mounted(path, mounts):
        raise Refused(
            f"{path} is mounted as a single file, but its newest decisions are in a -wal file next "
            "to it, which such a mount leaves out. Mount its directory instead: "
            "`-v /srv/ledger:/data`, not `-v /srv/ledger/ledger.db:/data/ledger.db`"
        )


def _is_mounted(path: Path, mounts: Path) -> bool:
    real = os.path.realpath(path)
    try:
        points = list(mount_points(mounts))
    except OSError:
        file, directory = identify(real), identify(Path(real).parent)
        return file is not None and directory is not None and file.device != directory.device
    # The table is the better test: an overlay's layers give one directory several devices.
    return os.fsencode(real) in points
