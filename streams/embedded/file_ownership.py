"""Taking a ledger's file for this process: locked, made if need be, begun as the settings say."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from accountant.errors import LogDamaged
from accountant.records import Genesis
from accountant.replay.refold import check_genesis
from streams.embedded import file_names, ledger_file
from streams.embedded.file_identity import FileIdentity
from streams.embedded.file_lock import FileLock
from streams.errors import Refused


class OwnedFile(NamedTuple):
    """A ledger's file whose locks this process holds.

    Attributes:
        path: absolute, since a program may go on in another directory.
        lock: to be released after the last connection to the file was closed.
        identity: which file it is.
        genesis: what its decision 0 has fixed.
    """

    path: Path
    lock: FileLock
    identity: FileIdentity
    genesis: Genesis


def own_file(path: Path, wanted: Genesis, at: int) -> OwnedFile:
    """Take a ledger's file, made if it is not there.

    Args:
        wanted: what a new log fixes, and an old one must have fixed.
        at: milliseconds since 1970, of a new log's decision 0.
    Raises: Refused: another process has it open, a setting differs from what the file was made
        with, it is no ledger or damaged, or can be reached by two names.
    """
    if path.is_dir():  # before a lock is left beside it
        raise Refused(f"{path} is a directory, not a ledger's file")
    lock = FileLock(path)
    try:
        lock.take()
    except OSError as error:
        raise Refused(f"{path} cannot be opened: {error}") from error
    try:
        file_names.check_mount(path)
        ledger_file.create(path, wanted, at)
        identity = lock.take_file()
        file_names.check_only_name(path, identity)
        genesis = ledger_file.stored_genesis(path)
        try:
            check_genesis(genesis, wanted)
        except LogDamaged as error:
            raise Refused(f"{path}: {error}") from error
    except BaseException:
        lock.release()
        raise
    return OwnedFile(path, lock, identity, genesis)
