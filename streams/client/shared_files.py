"""Clients of one process that open the same file share its ledger.

A notebook's cell that runs twice opens the file twice.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streams.clock import Clock, SystemClock
from streams.embedded.file_lock import FileLock, Held
from streams.embedded.service import EmbeddedService
from streams.errors import Refused
from streams.kafka.topic_sink import topic_sink
from streams.settings import Settings

# Settings that do not concern a ledger in a file: a token is for servers.
_OF_THE_CLIENT: Final = {"url", "token", "token_file", "token_unencrypted"}


class UsedAfterFork(Refused):
    """The client was made by the process that this one was forked from."""

    def __init__(self, made_by: int) -> None:
        super().__init__(
            f"process {made_by} made this client, and process {os.getpid()} is a fork of it: "
            "make an Accountant in this process, or start it by spawn instead of fork"
        )


@dataclass(slots=True)
class _Opened:
    service: EmbeddedService
    settings: Settings
    clock: Clock
    clients: int = 1


class _Files:
    """The files that clients of this process have open, by device and inode."""

    lock: threading.RLock
    opened: dict[tuple[int, int], _Opened]

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Reset after a fork: the child must neither use nor close the parent's files."""
        self.lock = threading.RLock()
        self.opened = {}


_files: Final = _Files()
os.register_at_fork(after_in_child=_files.forget)


def get_open(path: Path, settings: Settings, clock: Clock | None) -> EmbeddedService | None:
    """Return the service by which a client of this process has the file open, if one has.

    Raises: Refused: that client has other settings or another clock.
    """
    with _files.lock:
        try:
            identity = _identity(path)
        except OSError:
            return None
        known = _files.opened.get(identity)
        if known is None:
            return None
        _check_alike(path, known, settings, clock or SystemClock())
        known.clients += 1
        return known.service


def open_shared(path: Path, settings: Settings, clock: Clock | None) -> EmbeddedService:
    """Open a file that no client of this process has open.

    Raises: Refused, LogDamaged: as `EmbeddedService.open`.
    """
    with _files.lock:  # a second thread waits, and then finds it
        here = get_open(path, settings, clock)
        if here is not None:
            return here
        clock = clock or SystemClock()
        try:
            service = EmbeddedService.open(path, settings, clock=clock, topic_sink=topic_sink)
        except Held:
            owner = FileLock(path).owner()
            if owner is not None and owner.pid == os.getpid():
                what = f"this process ({owner.pid}) has {path} open already, by no client"
                raise Refused(f"{what}: use what it was opened by, or close that first") from None
            raise
        _files.opened[_identity(path)] = _Opened(service, settings, clock)
        return service


def release(service: EmbeddedService) -> bool:
    """Count one client less; return whether it was the last, which closes the file."""
    with _files.lock:
        for identity, known in _files.opened.items():
            if known.service is service:
                known.clients -= 1
                if known.clients == 0:
                    del _files.opened[identity]
                return known.clients == 0
    return True


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _check_alike(path: Path, known: _Opened, settings: Settings, clock: Clock) -> None:
    before = known.settings.model_dump(exclude=_OF_THE_CLIENT)
    now = settings.model_dump(exclude=_OF_THE_CLIENT)
    differing = [name for name in now if now[name] != before[name]]
    if clock is not known.clock and not (
        isinstance(clock, SystemClock) and isinstance(known.clock, SystemClock)
    ):
        differing.append("clock")
    if differing:
        raise Refused(
            f"this process ({os.getpid()}) has {path} open already, with another "
            f"{', '.join(differing)}: disconnect that client first, or make this one like it"
        )
