"""How a dataset is divided, read from the rows of a ledger's file, which is only read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from accountant.errors import LogDamaged
from accountant.limits.state import level_of
from accountant.limits.store import LevelTable
from accountant.limits.wire import decode_level_row, level_row_keys
from accountant.records.members import MemberRow, decode_member_row, member_row_key
from accountant.views.datasets import DatasetView
from accountant.views.ledgers import ledger_of
from accountant.views.limit_views import Divided
from streams.clock import SystemClock


def divided_in(path: Path, view: DatasetView, *names: str) -> tuple[Divided, dict[str, MemberRow]]:
    """Return how a dataset is divided, and the rows of those of some names who are members.

    Raises: LogDamaged, Refused, Unavailable.
    """
    from streams.embedded.ledger_file import ROWS, decoded_row, partition_row, reader, sound_row

    first, last = level_row_keys(view.dataset)
    with reader(path) as db, db:  # one transaction, so one moment
        levels: list[Any] = db.execute(
            f"{ROWS} WHERE key > ? AND key < ?", (first, last)
        ).fetchall()
        members: list[Any] = []
        for name in names:
            key = member_row_key(view.dataset, name)
            members += db.execute(f"{ROWS} WHERE key = ?", (key,)).fetchall()
        own = partition_row(db)
    table = LevelTable()
    for each in levels:
        row = decoded_row(each[0], sound_row(*each), decode_level_row)
        try:
            table.put(level_of(row))
        except ValueError as error:
            raise LogDamaged(f"a row of a limit of {view.dataset} is damaged: {error}") from error
    ledger = ledger_of(view)
    # Not the dataset's own last decision: where the clock was set back, that lies ahead.
    decided = 0 if own is None else own.decided_at
    resets = (0, 0) if own is None else (own.resets or 0, own.reset_at or 0)
    at = max(SystemClock().now(), decided)
    rows = [decoded_row(each[0], sound_row(*each), decode_member_row) for each in members]
    return Divided(ledger, table, at, resets), {row.member: row for row in rows}
