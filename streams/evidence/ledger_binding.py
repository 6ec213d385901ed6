"""Binds a name to one ledger, so that another ledger's log under the same name is detected.

    DIRECTORY/names/HASH        the name, and the id of its ledger, a line each

A name is the path of a ledger's file, or the name of the topics of a ledger on Kafka.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from streams.errors import Refused
from streams.logs import get_logger

_log = get_logger(__name__)
_NAMES: Final = "names"


def check_name(directory: Path, name: str, ledger: str, *, begins: bool = False) -> None:
    """Check that a name still belongs to the same ledger; bind it at first use.

    Nothing is checked while the directory is unusable: storing checkpoints reports that.

    Args:
        directory: the directory of checkpoints.
        ledger: the ledger's id.
        begins: the ledger is new, so it takes over the name of one that no longer exists.

    Raises: Refused: the name belongs to another ledger.
    """
    file = directory / _NAMES / hashlib.sha256(name.encode()).hexdigest()[:16]
    try:
        was = _read(file)
        if was is None or (begins and was != ledger):
            _write(file, name, ledger)
    except OSError:
        return
    if was in {None, ledger}:
        return
    if begins:
        _log.warning(
            "another_ledger_begins",
            name=name,
            was=was,
            then="the name belongs to the new ledger now",
        )
        return
    raise Refused(
        f"{name} has the log of ledger {ledger}, but it had that of ledger {was} before: another "
        "ledger's log was put in its place, or the ledger was created again. Restore the right "
        f"one; or, to give up the earlier ledger for ever, remove {file}"
    )


def ledgers_named(directory: Path) -> set[str]:
    """Return the ids of all ledgers that have a name.

    Raises: OSError.
    """
    return {found for file in (directory / _NAMES).glob("*") if (found := _read(file)) is not None}


def _read(file: Path) -> str | None:
    """Return the ledger in a file, None if the file is missing or damaged."""
    if not file.exists():
        return None
    text = file.read_text("utf-8", errors="replace")
    # A name may contain whatever a path may, such as U+2028 or a line break.
    name, _, ledger = text.removesuffix("\n").rpartition("\n")
    return ledger if name and ledger and text.endswith("\n") else None


def _write(file: Path, name: str, ledger: str) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with partial.open("w", encoding="utf-8") as out:
            out.write(f"{name}\n{ledger}\n")
            out.flush()
            os.fsync(out.fileno())
        partial.rename(file)
    finally:
        partial.unlink(missing_ok=True)
