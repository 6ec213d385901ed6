"""Refuses a new ledger at the path of one that is gone: it would start with fresh budgets."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from streams.errors import Refused
from streams.evidence.ledger_binding import ledgers_at
from streams.evidence.signed_checkpoint import SUFFIX
from streams.evidence.store import FILE, folder_of

_NOTE: Final = re.compile(rf"[0-9]+-([0-9]+)-[0-9a-f]+{re.escape(SUFFIX)}")
_GIVE_UP: Final = (
    "to give that ledger up for ever, start once with --replace-ledger (`accountant serve`, "
    "`accountant dataset open`; in Python `Accountant(..., replace_ledger=True)`)"
)


def paths_of(path: Path) -> list[str]:
    """Return the names that a ledger's file is known by: its path, and where its links lead."""
    return list(dict.fromkeys((str(path), os.path.realpath(path))))


def check_new_ledger(directory: Path, path: Path, new: str | None = None) -> None:
    """Check that no ledger with decisions was at a path where a new one begins.

    Args:
        directory: the directory of checkpoints.
        path: of the ledger's file, absolute.
        new: the id of a new ledger that is there already; None before its file is made.

    Raises: Refused: a ledger was there, whose checkpoints count more than its genesis.
        OSError: the directory cannot be read.
    """
    for name in paths_of(path):
        for ledger in ledgers_at(directory, name):
            newest = max(checkpoint_numbers(directory, ledger), default=0)
            if ledger != new and newest > 0:
                what = f"{path} is missing, and ledger {ledger}"
                if new is not None:
                    what = f"{path} holds a new ledger, and ledger {ledger}"
                raise Refused(
                    f"{what} was there, whose checkpoints go up to decision {newest}: a new ledger "
                    "would forget what was spent. Put the right file back"
                    f"{_seen_at(directory, ledger, path)}. Or, {_GIVE_UP}"
                )


def checkpoint_numbers(directory: Path, ledger: str) -> Iterator[int]:
    """Yield the decision number of each checkpoint of a ledger, at any path.

    Raises: OSError.
    """
    with contextlib.suppress(FileNotFoundError):
        for place in folder_of(directory, ledger).iterdir():
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                for note in (place / "0").iterdir():
                    # The name tells it: a file that is damaged is evidence, too.
                    found = _NOTE.fullmatch(note.name)
                    if found is not None:
                        yield int(found[1])


def _seen_at(directory: Path, ledger: str, path: Path) -> str:
    """Return where a file of the ledger may still be."""
    for file in sorted(folder_of(directory, ledger).glob(f"*/{FILE}")):
        with contextlib.suppress(OSError, ValueError):
            other = Path(file.read_text("utf-8"))
            if other != path and other.is_file():
                return f"; it may be {other}"
    return ""
