"""Binds a name to one ledger, so that another ledger's log under the same name is detected.

    DIRECTORY/names/HASH        the name, then the ids of its ledgers, the present one first

A name is the path of a ledger's file, or the name of the topics of a ledger on Kafka. The later ids
are of ledgers that were given up there: the file of such a one is accepted if it is put back.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from streams.errors import Refused
from streams.files.whole_files import write_whole
from streams.telemetry.logs import get_logger

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
    file = _file(directory, name)
    try:
        was = _read(file) or []
        is_back = ledger in was[1:]
        if not was or (was[0] != ledger and (begins or is_back)):
            _write(file, name, [ledger, *(each for each in was if each != ledger)])
    except OSError:
        return
    if not was or was[0] == ledger:
        return
    if begins or is_back:
        _log.warning(
            "earlier_ledger_is_back" if is_back else "another_ledger_begins",
            name=name,
            was=was[0],
            then="the name belongs to this ledger now",
        )
        return
    raise Refused(
        f"{name} has the log of ledger {ledger}, but it had that of ledger {was[0]} before: "
        "another ledger's log was put in its place, or the ledger was created again. Restore the "
        f"right one; or, to give up the earlier ledger for ever, remove {file}"
    )


def ledgers_at(directory: Path, name: str) -> list[str]:
    """Return the ledger that a name belongs to; of a damaged record, all that had the name.

    Raises: OSError.
    """
    found = _read(_file(directory, name))
    if found is None or found:
        return (found or [])[:1]
    return [folder.parent.name for folder in sorted(directory.glob(f"*/{place_of(name)}"))]


def ledgers_named(directory: Path) -> set[str]:
    """Return the ids of all ledgers that have a name.

    Raises: OSError.
    """
    return {found[0] for file in (directory / _NAMES).glob("*") if (found := _read(file))}


def place_of(name: str) -> str:
    """Return the name of the files that are about a name, such as the path of a ledger's file."""
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def _file(directory: Path, name: str) -> Path:
    return directory / _NAMES / place_of(name)


def _read(file: Path) -> list[str] | None:
    """Return the ledgers in a file, none if it is damaged, None if it is missing."""
    try:
        text = file.read_text("utf-8", errors="replace")
    except FileNotFoundError:
        return None
    # A name may contain whatever a path may, such as U+2028 or a line break.
    name, _, ledgers = text.removesuffix("\n").rpartition("\n")
    return ledgers.split() if name and text.endswith("\n") else []


def _write(file: Path, name: str, ledgers: list[str]) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with write_whole(file, replace=True) as out:
        out.write(f"{name}\n{' '.join(ledgers)}\n".encode())
