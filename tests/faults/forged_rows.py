"""Forged rows of `state`, with correct checksums."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.ledger_file import connected

PARTITION = b'{"partition":0}'

Rows = dict[bytes, bytes]
Change = Callable[[bytes], bytes]


def with_right_checksum(rows: Mapping[bytes, bytes], own: bytes = PARTITION) -> Rows:
    """Return rows of which the partition's own has the checksum of the others."""
    row = json.loads(rows[own])
    total = sum(zlib.crc32(value) for key, value in rows.items() if key != own)
    if row.get("resets"):
        total += zlib.crc32(b"[%d,%d]" % (row["resets"], row["reset_at"]))
    row["checksum"] = f"{total % 2**64:016x}"
    return {**rows, own: json.dumps(row, separators=(",", ":")).encode()}


def forged(rows: Mapping[bytes, bytes], key: bytes, change: Change) -> Rows:
    """Return rows with one changed, and with the checksums that match it."""
    changed = change(rows[key])
    assert changed != rows[key]
    return with_right_checksum({**rows, key: changed})


def replaced(old: bytes, new: bytes) -> Change:
    return lambda value: value.replace(old, new)


def rows_of(file: Path) -> Rows:
    """Return the rows of `state` in a ledger's file."""
    with connected(file) as db:
        rows = db.execute("SELECT key, value FROM state")
        return {bytes(key): bytes(value) for key, value in rows}


def put(file: Path, rows: Mapping[bytes, bytes]) -> None:
    """Replace rows in a ledger's file, each with its own checksum."""
    with connected(file) as db:
        db.execute("DELETE FROM state")
        db.executemany(
            "INSERT INTO state VALUES (?, ?, ?)",
            [(key, value, zlib.crc32(value, zlib.crc32(key))) for key, value in rows.items()],
        )
