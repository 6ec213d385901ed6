"""Under one name always one ledger: another one's log has checkpoints of its own, or none.

    DIRECTORY/names/HASH        the name, and the id of the ledger that lies under it, a line each

A name is the path of a ledger's file, or what the topics of a ledger on Kafka are called.
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
    """Check that the ledger under a name is the one that was there before; remember the first.

    Where the directory cannot be used, nothing is checked: who keeps the checkpoints tells that.

    Args:
        directory: of checkpoints.
        ledger: its id.
        begins: it was made just now, in the place of one that is no more: it takes the name over.

    Raises: Refused: it is another one.
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
        _log.warning("another_ledger_begins", name=name, was=was, then="it is made anew")
        return
    raise Refused(
        f"{name} holds the log of ledger {ledger}, but that of ledger {was} was there before: "
        "another ledger's log was put in its place, or the ledger was made anew. Put the right "
        f"one back; or, if that ledger is given up for ever, remove {file}"
    )


def ledgers_named(directory: Path) -> set[str]:
    """Return the ids of the ledgers that lie under any name.

    Raises: OSError.
    """
    return {found for file in (directory / _NAMES).glob("*") if (found := _read(file)) is not None}


def _read(file: Path) -> str | None:
    """Return the ledger that lies under a name, None where the file is missing or damaged."""
    if not file.exists():
        return None
    text = file.read_text("utf-8", errors="replace")
    # A name may hold whatever a path may, such as U+2028, or an end of line.
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
