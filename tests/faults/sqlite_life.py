"""An embedded ledger's file, a failing disk, and a reader that checks everything."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import apsw

from tests.faults import oracle
from tests.faults.oracle import Partition

STARTS = ()

DISK = "unix"
"""SQLite's own way to the files."""


class Disk(apsw.VFS):
    """The real file system, under every connection made while it is installed.

    Each write, sync and truncation of the ledger's files is counted, and `at` may fail it.
    """

    def __init__(self) -> None:
        self.name = f"disk-{id(self)}"
        super().__init__(self.name, DISK, makedefault=True)
        self.counting = False
        self.count = 0
        self.at: Callable[[int, DiskFile, str, bytes, int], None] = lambda *_: None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        apsw.set_default_vfs(DISK)
        self.unregister()

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 (apsw's name)
        return DiskFile(self, name, flags)

    def reached(self, file: DiskFile, what: str, data: bytes = b"", offset: int = 0) -> None:
        """Count one operation."""
        if self.counting:
            with self._lock:
                self.count += 1
                count = self.count
            self.at(count, file, what, data, offset)


class DiskFile(apsw.VFSFile):
    """One file on it."""

    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        self.disk = disk
        super().__init__(DISK, name, flags)

    def write(self, data: bytes, offset: int) -> None:
        """Write, whatever was planned for it."""
        super().xWrite(data, offset)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self.disk.reached(self, "write", bytes(data), offset)
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self.disk.reached(self, "sync")
        super().xSync(flags)

    def xTruncate(self, size: int) -> None:  # noqa: N802
        self.disk.reached(self, "truncate")
        super().xTruncate(size)


def die() -> None:
    """Kill this process now."""
    os.kill(os.getpid(), signal.SIGKILL)


def forked(life: Callable[[], object]) -> int:
    """Run a function in a process of its own, which ends with it; return its id."""
    child = os.fork()
    if child == 0:
        try:
            nowhere = os.open(os.devnull, os.O_RDWR)
            for fd in (0, 1):
                os.dup2(nowhere, fd)
            life()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return child


def copied(file: Path, to: Path) -> Path:
    """Return a copy of a ledger's file with its WAL, after a crash."""
    to.mkdir(exist_ok=True)
    for suffix in ("", "-wal"):
        target = to / (file.name + suffix)
        target.unlink(missing_ok=True)
        (to / f"{file.name}-shm").unlink(missing_ok=True)
        source = file.with_name(file.name + suffix)
        if source.exists():
            shutil.copyfile(source, target)
    return to / file.name


def verdict(
    file: Path,
    scratch: Path,
    sent: Callable[[bytes], bool] | Iterable[bytes],
    between: tuple[int, int],
) -> Partition:
    """Compare a copy of a file with the inputs: nothing lost, torn, charged twice or invented.

    Args:
        sent, between: see `oracle.inputs_of`.
    """
    found = oracle.contents(copied(file, scratch))
    return oracle.judge_file(found, oracle.inputs_of(found, sent, between))


def since(begun: int) -> tuple[int, int]:
    """Return from when until now, milliseconds since 1970."""
    return begun, time.time_ns() // 1_000_000


def decisions_of(file: Path) -> Sequence[bytes]:
    """Return the decisions of a file, read by Python's own SQLite; it may change it."""
    return oracle.contents(file).decisions


def granted_to(partition: Partition, dataset: str) -> set[str]:
    """Return the ids that a dataset's grants were for."""
    return {
        each["request"]["request_id"]
        for each in partition.decisions
        if each["outcome"] == "granted" and each["dataset"] == dataset
    }
