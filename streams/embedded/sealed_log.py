"""Reads and writes the snapshot of a seal in a ledger's file, and finds where its log begins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import apsw

from accountant.errors import LogDamaged
from accountant.records import DECODE_ERRORS, decode_decision
from accountant.records.operator_records import Seal
from accountant.replay.sealed_log import SealSnapshot, partition_row
from streams.embedded.ledger_file import SEALED_TABLE, numbered_decisions

_PARTS: Final = ("state", "usage")


def read_sealed(db: apsw.Connection) -> SealSnapshot | None:
    """Return the snapshot of the log's seal, None if the log has no archives."""
    if not db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'sealed'").get:
        return None
    parts = [list(_values(db, part)) for part in _PARTS]
    return SealSnapshot(*parts) if any(parts) else None


def _values(db: apsw.Connection, part: str) -> Iterator[bytes]:
    # A damaged value may have another type; the seal has the hash of all of them.
    query = "SELECT CAST(value AS BLOB) FROM sealed WHERE part = ? ORDER BY number"
    for (value,) in db.execute(query, (part,)):
        yield bytes(value)


def write_sealed(db: apsw.Connection, sealed: SealSnapshot, archived: int) -> None:
    """Put a snapshot in place of the decisions up to `archived`, within the open transaction."""
    db.execute(SEALED_TABLE)
    db.execute("DELETE FROM sealed")
    for part, lines in zip(_PARTS, sealed, strict=True):
        db.executemany("INSERT INTO sealed VALUES (?, ?, ?)", _numbered(part, lines))
    # Decision 0 stays: it identifies the log.
    db.execute("DELETE FROM decisions WHERE sequence BETWEEN 1 AND ?", (archived,))


def _numbered(part: str, lines: Iterable[bytes]) -> Iterator[tuple[str, int, bytes]]:
    return ((part, number, line) for number, line in enumerate(lines))


def first_unarchived(db: apsw.Connection) -> int:
    """Return the number of the first decision of the log's unbroken end."""
    found: Any = db.execute("SELECT min(sequence) FROM decisions WHERE sequence > 0").get
    return 0 if found is None or found == 1 else int(found)


def read_seal(db: apsw.Connection) -> tuple[SealSnapshot, Seal] | None:
    """Return the snapshot and the seal that names it, None if the log has no archives.

    Raises: LogDamaged: one of them is missing, or cannot be read.
    """
    sealed = read_sealed(db)
    if sealed is None:
        if begin := first_unarchived(db):
            raise LogDamaged(f"decisions 1 to {begin - 1} and the snapshot of a seal are missing")
        return None
    number = partition_row(sealed).partition_sequence + 1
    values = dict(numbered_decisions(db, first=number, limit=1))
    try:
        seal = decode_decision(values[number]).seal
    except (*DECODE_ERRORS, KeyError) as error:
        raise LogDamaged(f"the seal, decision {number}, cannot be read: {error}") from error
    if seal is None:
        raise LogDamaged(f"decision {number} must be the seal of the snapshot")
    return sealed, seal
