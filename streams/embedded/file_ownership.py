"""Takes ownership of a ledger's file: locks it, creates it, checks it against the settings."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from accountant.errors import LogDamaged
from accountant.records import Genesis
from accountant.replay.replay import check_genesis
from streams.embedded import file_identity, ledger_file
from streams.embedded.file_identity import FileIdentity
from streams.embedded.file_lock import FileLock
from streams.embedded.journal import SqliteJournal
from streams.embedded.queue import InputQueue
from streams.errors import Refused
from streams.index import index_path
from streams.processing.journal import new_ledger_id
from streams.settings import Settings


class OwnedFile(NamedTuple):
    """A ledger's file whose locks this process holds.

    Attributes:
        path: absolute, since a program may change its working directory.
        lock: release it after the last connection to the file is closed.
        identity: the file's device and inode.
        genesis: the one in the file's decision 0.
    """

    path: Path
    lock: FileLock
    identity: FileIdentity
    genesis: Genesis


def own_file(
    path: Path,
    wanted: Genesis,
    at: int,
    *,
    before_new: Callable[[], None],
    private: bool = False,
) -> OwnedFile:
    """Lock a ledger's file, and create it if it is missing.

    Args:
        wanted: the genesis of a new log; an existing log must have the same one.
        at: the time of a new log's decision 0, in milliseconds since 1970.
        before_new: called before a missing file is made.
        private: nobody but its user may open a new file.
    Raises: Refused: another process has the file open, a setting differs from the file's
        genesis, or the file is no ledger, damaged or reachable by two names. The errors of
        `before_new`.
    """
    if path.is_dir():  # checked first, since `take` leaves a lock's file beside the path
        raise Refused(f"{path} is a directory. Name the ledger's file in it")
    ledger_file.check_mark(path)
    lock = FileLock(path)
    try:
        lock.take()
    except OSError as error:
        raise Refused(f"{path} cannot be opened: {error}") from error
    try:
        file_identity.check_mount(path)
        if not path.exists():
            before_new()
        new = msgspec.structs.replace(wanted, ledger=new_ledger_id())
        ledger_file.create(path, new, at, private=private)
        identity = lock.take_file()
        file_identity.check_only_name(path, identity)
        genesis = ledger_file.read_genesis(path)
        try:
            check_genesis(genesis, wanted)
        except LogDamaged as error:
            raise Refused(f"{path}: {error}") from error
    except BaseException:
        lock.release()
        raise
    return OwnedFile(path, lock, identity, genesis)


@contextlib.contextmanager
def stopped_ledger(
    path: Path, settings: Settings, now: int
) -> Iterator[tuple[SqliteJournal, Genesis]]:
    """Own an existing ledger's file that no process has open, for a command.

    Yields: its journal, not owned yet, and its genesis.
    Raises: Refused: another process has it open, or it is not a ledger's file.
    """
    private = settings.authenticates

    def refuse() -> None:
        raise Refused(f"{path} was removed. Put it back, then run the command again")

    genesis = settings.genesis(0, 1)
    file = own_file(path.absolute(), genesis, now, before_new=refuse, private=private)
    try:
        inbox = InputQueue(settings.most_waiting)
        index = index_path(file.path, settings)
        journal = SqliteJournal(file.path, inbox=inbox, file=file.identity, index=index)
        yield journal, file.genesis
    finally:
        file.lock.release()
