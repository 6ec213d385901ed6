"""Connects a ledger's file to its signed checkpoints, and checks which ledger a file contains."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from accountant.errors import LedgerFault
from accountant.partition import hash_of
from accountant.records import DECODE_ERRORS
from accountant.views.heads import ledger_of
from streams.clock import Clock
from streams.embedded.ledger_file import numbered_decisions, read_decisions, reader
from streams.errors import Refused, Unavailable
from streams.settings import Settings
from streams.tasks.background import Background

if TYPE_CHECKING:
    from streams.evidence.checkpointer import Checkpointer
    from streams.evidence.sink_choice import TopicSink
    from streams.evidence.sink_sender import Senders
    from streams.evidence.store import FileCheckpoints


def own_heads(
    path: Path,
    settings: Settings,
    clock: Clock,
    senders: Senders | None,
    background: Background,
) -> Checkpointer | None:
    """Return what keeps a ledger's checkpoints, None where a setting turns them off.

    Args:
        path: the ledger's file, absolute.
        senders: are given what is kept.
    """
    if settings.checkpoints == "off":
        return None
    from streams.evidence.checkpointer import Checkpointer

    return Checkpointer(
        lambda: kept_of(path, settings),
        lambda number: digest_at(path, number),
        clock,
        seconds=settings.checkpoint_seconds,
        required=settings.checkpoints_required,
        compares_clock=True,
        missing=lambda: _missing(path, settings),
        send=None if senders is None else senders.take,
        background=background,
    )


def _missing(path: Path, settings: Settings) -> str | None:
    """Return why no checkpoint of a ledger's file is in their directory, None if one is."""
    from streams.evidence.checkpoint_troubles import no_checkpoint
    from streams.evidence.lost_ledger import checkpoint_numbers
    from streams.evidence.store import folder_of, has_key

    directory = directory_of(settings)
    if directory is None:
        return None  # the store reports it, and a directory that cannot be read
    with contextlib.suppress(OSError, Unavailable):
        ledger = ledger_id(path)
        if any(not each.is_dir() for each in folder_of(directory, ledger).glob("*/0")):
            return None  # it cannot be read
        if next(checkpoint_numbers(directory, ledger), None) is None:
            new_key = not has_key(directory, settings.checkpoint_key)
            return no_checkpoint(directory, required=settings.checkpoints_required, new_key=new_key)
    return None


def check_missing(path: Path, settings: Settings, *, replaces: bool) -> None:
    """Check, before a file is made, that no ledger with decisions was at its path.

    Args:
        path: absolute.
        replaces: somebody has given up the earlier ledger.

    Raises: Refused: there was one, or that cannot be known and must be.
    """
    directory = directory_of(settings)
    if directory is None or replaces:
        return
    from streams.evidence.lost_ledger import check_new_ledger

    try:
        check_new_ledger(directory, path)
    except OSError as error:
        if settings.checkpoints_required:
            raise Refused(
                f"checkpoints cannot be read: {error}; no ledger is created at {path} until it is "
                "known that none was there, because ACCOUNTANT_CHECKPOINTS_REQUIRED is set"
            ) from error


def check_ledger(path: Path, settings: Settings, *, replaces: bool = False) -> None:
    """Check that a file contains the ledger that had this path before.

    A file with nothing but a genesis is a new ledger: somebody has removed the earlier file.

    Args:
        path: absolute.
        replaces: a new ledger may replace one with decisions.

    Raises: Refused: the file contains another ledger's log.
    """
    directory = directory_of(settings)
    if directory is None:
        return
    from streams.evidence.ledger_binding import check_name
    from streams.evidence.lost_ledger import check_new_ledger, paths_of

    try:
        ledger = ledger_id(path)
        begins = len([*read_decisions(path, limit=2)]) == 1
    except Unavailable:
        return  # the replay reports it
    if begins and not replaces:
        with contextlib.suppress(OSError):
            check_new_ledger(directory, path, ledger)
    for name in paths_of(path):
        check_name(directory, name, ledger, begins=begins)


def directory_of(settings: Settings) -> Path | None:
    """Return the directory of checkpoints; None if it is turned off, or this user has no home."""
    if settings.checkpoints == "off":
        return None
    from streams.evidence.store import default_directory

    directory = settings.checkpoints or default_directory()
    return None if directory is None else directory.absolute()


def senders_of(
    settings: Settings, topic_sink: TopicSink | None, background: Background
) -> Senders | None:
    """Return the senders of checkpoints to the configured sinks, None without any.

    Args:
        topic_sink: as of `checkpoint_senders`.

    Raises: Refused: a sink cannot be used, or no checkpoints are stored.
    """
    if settings.checkpoint_places is None:
        return None
    from streams.evidence.sink_choice import checkpoint_senders

    stored = settings.checkpoints != "off"
    return checkpoint_senders(settings, topic_sink, stored=stored, background=background)


def kept_of(path: Path, settings: Settings) -> FileCheckpoints:
    """Return where the checkpoints of a ledger's file are kept.

    Args:
        path: absolute.

    Raises: Unavailable, Refused: the sink or the key cannot be used, or is turned off.
    """
    from streams.evidence.store import FileCheckpoints

    if settings.checkpoints == "off":
        raise Unavailable("ACCOUNTANT_CHECKPOINTS is off")
    directory = directory_of(settings)
    if directory is None:
        raise Unavailable("this user has no home: set ACCOUNTANT_CHECKPOINTS to a directory")
    ledger = ledger_id(path)
    return FileCheckpoints(
        directory,
        path,
        ledger,
        lambda other: _is_other_copy(other, path, ledger),
        key=settings.checkpoint_key,
    )


def digest_at(path: Path, number: int) -> str | None:
    """Return the hash of a decision in a ledger's file, None if it is in an archive.

    Raises: Unavailable: it cannot be read. Refused: the file is damaged.
    """
    try:
        # Use a new connection: one that stays open would keep the file's -wal alive.
        with reader(path) as db:
            found = next(numbered_decisions(db, first=number, limit=1), None)
    except apsw.Error as error:
        raise Unavailable(f"{path} cannot be read: {error}") from error
    return None if found is None or found[0] != number else hash_of(found[1])


def ledger_id(path: Path) -> str:
    """Return a ledger's id, or the hash of decision 0 if it has no id.

    Raises: Unavailable: decision 0 cannot be read. Refused: as `read_decisions`.
    """
    for value in read_decisions(path, first=0, limit=1):
        try:
            return ledger_of(value) or hash_of(value)
        except DECODE_ERRORS as error:
            raise Unavailable(f"decision 0 of {path} cannot be read: {error}") from error
    raise Unavailable(f"{path} has no decision 0")


def _is_other_copy(path: Path, own: Path, ledger: str) -> bool:
    """Return whether another file contains the same ledger."""
    try:
        if not path.is_file() or path.samefile(own):
            return False
        return ledger_id(path) == ledger
    except (OSError, LedgerFault):
        return False
