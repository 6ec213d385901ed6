"""A ledger's file must have one name: SQLite keeps the newest decisions beside the opened name."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from streams.embedded.file_identity import FileIdentity, identify
from streams.embedded.ledger_file import leftovers, remove
from streams.embedded.mounts import HERE, mounted
from streams.errors import Refused


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
            f"{path} has {names} names (hard links), and its newest decisions may lie in a -wal "
            "file beside one of them only. Stop whoever has it open, keep the name with a -wal "
            f"beside it, remove the others: `find DIR -xdev -samefile {path}` lists them"
        )


def _names(path: Path) -> int:
    try:
        return path.stat().st_nlink
    except OSError as error:
        raise Refused(f"{path} cannot be opened: {error}") from error


def _has_wal(path: Path) -> bool:
    wal = path.with_name(path.name + "-wal")
    return wal.exists() and wal.stat().st_size > 0


def check_mount(path: Path, *, mounts: Path = HERE) -> None:
    """Raise if the file exists and is mounted alone, without its directory.

    Args:
        mounts: a table of mount points in the format of `/proc/self/mountinfo`.
    Raises: Refused.
    """
    if _is_mounted(path, mounts):
        raise Refused(
            f"{path} is mounted as a single file, and its newest decisions lie in a -wal file "
            "beside it, which such a mount leaves out. Mount its directory instead: "
            "`-v /srv/ledger:/data`, not `-v /srv/ledger/ledger.db:/data/ledger.db`"
        )


def _is_mounted(path: Path, mounts: Path) -> bool:
    real = os.path.realpath(path)
    try:
        points = list(mounted(mounts))
    except OSError:
        file, directory = identify(real), identify(Path(real).parent)
        return file is not None and directory is not None and file.device != directory.device
    # The table is the better test: an overlay's layers give one directory several devices.
    return os.fsencode(real) in points
