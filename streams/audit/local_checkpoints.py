"""The checkpoints that a ledger's file has left on this machine, for an audit without others.

They are signed by keys beside them, so they prove nothing against whoever can write there. But two
signed heads that exclude each other mean that a copy of the file has decided, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accountant.replay.audit import AuditReport
    from streams.evidence.comparison import Evidence
    from streams.evidence.keys import Verifier
    from streams.log.decision_log import DecisionLog


def local_evidence(source: DecisionLog) -> Evidence | None:
    """Return the checkpoints of a ledger's file, None if there are none that can be read."""
    from accountant.errors import LedgerFault
    from streams.embedded.sqlite_log import SqliteLog

    if not isinstance(source, SqliteLog):
        return None
    from streams.embedded.checkpointing import directory_of, ledger_id
    from streams.evidence.comparison import Evidence
    from streams.evidence.store import Directory, folder_of
    from streams.settings import load_command

    with contextlib.suppress(LedgerFault, OSError):
        directory = directory_of(load_command())
        if directory is not None:
            folder = folder_of(directory, ledger_id(source.path))
            if folder.is_dir():
                branch = _branch(source.path)
                notes = (
                    (name, text)
                    for name, text in Directory(folder).notes()
                    if _branch_of(name) >= branch
                )
                return Evidence(notes, keys_in(folder))
    return None


def forks_in(evidence: Evidence, reports: Iterable[tuple[int, AuditReport]]) -> list[str]:
    """Return what shows that two logs of a sound log's ledger were signed."""
    by_partition = dict(reports)
    if not all(report.right for report in by_partition.values()):
        return []
    return [fork for each in evidence.compared(by_partition) for fork in each.forks]


def _branch(file: Path) -> int:
    """Return the branch of a log: as at a start, it has accepted the loss of earlier ones.

    Raises: Refused: the file is damaged.
    """
    from msgspec import UNSET

    from streams.embedded.ledger_file import partition_row, reader

    with reader(file) as db:
        row = partition_row(db)
    return 0 if row is None or row.branch is UNSET else row.branch


def _branch_of(note: str) -> int:
    """Return the branch in the name of a checkpoint's file, 0 if it is another name."""
    first = note.split("-", maxsplit=1)[0]
    return int(first) if first.isdecimal() else 0


def keys_in(folder: Path) -> Iterator[Verifier]:
    """Yield the public keys that lie beside a ledger's checkpoints."""
    from streams.errors import Refused
    from streams.evidence.keys import Verifier

    for file in folder.glob("*/keys"):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            for line in file.read_text("ascii").split():
                with contextlib.suppress(Refused):
                    yield Verifier.parse(line)
