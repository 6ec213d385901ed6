"""Shares one open ledger file among the clients of a process.

A notebook cell that runs twice opens the file twice.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streams.clock import Clock, SystemClock
from streams.embedded.file_lock import FileInUse, FileLock
from streams.embedded.service import EmbeddedService
from streams.errors import Refused
from streams.kafka.log.topic_sink import topic_sink
from streams.settings import Settings

# Settings that do not matter for a file: tokens are for servers.
_CLIENT_SETTINGS: Final = {"url", "token", "token_file", "token_unencrypted"}


class UsedAfterFork(Refused):
    """A forked process used a client of its parent."""

    def __init__(self, made_by: int) -> None:
        super().__init__(
            f"this client belongs to process {made_by}, and process {os.getpid()} is a fork of it. "
            "Make an Accountant in each process, or start processes with `spawn` instead of `fork`"
        )


@dataclass(slots=True)
class _OpenFile:
    service: EmbeddedService
    settings: Settings
    clock: Clock
    clients: int = 1


class _Files:
    """The open files of this process's clients, by device and inode."""

    lock: threading.RLock
    open_files: dict[tuple[int, int], _OpenFile]

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Reset after a fork: the child must neither use nor close the parent's files."""
        self.lock = threading.RLock()
        self.open_files = {}


_files: Final = _Files()
os.register_at_fork(after_in_child=_files.forget)


def get_open(path: Path, settings: Settings, clock: Clock | None) -> EmbeddedService | None:
    """Return the service of a file that a client of this process has open, if any.

    Counts one more client.

    Raises: Refused: that client has other settings or another clock.
    """
    with _files.lock:
        try:
            identity = _identity(path)
        except OSError:
            return None
        known = _files.open_files.get(identity)
        if known is None:
            return None
        _check_same_settings(path, known, settings, clock or SystemClock())
        known.clients += 1
        return known.service


def open_shared(
    path: Path, settings: Settings, clock: Clock | None, *, replace_ledger: bool = False
) -> EmbeddedService:
    """Open a file, or share it with the client of this process that has it open.

    Args:
        replace_ledger: as of `EmbeddedService.open`.

    Raises: Refused, LogDamaged: see `EmbeddedService.open`.
    """
    with _files.lock:  # a second thread waits here, then shares the file
        service = get_open(path, settings, clock)
        if service is not None:
            return service
        clock = clock or SystemClock()
        try:
            service = EmbeddedService.open(
                path,
                settings,
                clock=clock,
                topic_sink=topic_sink,
                replace_ledger=replace_ledger,
            )
        except FileInUse:
            owner = FileLock(path).owner()
            if owner is not None and owner.pid == os.getpid():
                raise Refused(
                    f"this process ({owner.pid}) already has {path} open without a client. "
                    "Use that service, or close it first"
                ) from None
            raise
        _files.open_files[_identity(path)] = _OpenFile(service, settings, clock)
        return service


def release(service: EmbeddedService) -> bool:
    """Remove one client of a file; return whether it was the last, which closes the file."""
    with _files.lock:
        for identity, known in _files.open_files.items():
            if known.service is service:
                known.clients -= 1
                if known.clients == 0:
                    del _files.open_files[identity]
                return known.clients == 0
    return True


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _check_same_settings(path: Path, known: _OpenFile, settings: Settings, clock: Clock) -> None:
    old = known.settings.model_dump(exclude=_CLIENT_SETTINGS)
    new = settings.model_dump(exclude=_CLIENT_SETTINGS)
    differing = [name for name in new if new[name] != old[name]]
    if clock is not known.clock and not (
        isinstance(clock, SystemClock) and isinstance(known.clock, SystemClock)
    ):
        differing.append("clock")
    if differing:
        raise Refused(
            f"this process ({os.getpid()}) already has {path} open with another "
            f"{', '.join(differing)}. Close that client first, or use the same settings"
        )
