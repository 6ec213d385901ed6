"""The rows of a partition's tables, as a replay takes them from `state`: one entry for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from accountant.partition import Partition
from accountant.records.asks import is_ask_row_key
from accountant.records.limit_records import is_scope_row_key
from accountant.records.members import is_member_row_key
from accountant.records.pending_rows import is_pending_row_key
from accountant.records.reservation_rows import is_reservation_row_key
from accountant.records.state_rows import TableName
from accountant.replay.asks import take_ask_row, wrong_asks
from accountant.replay.members_and_limits import (
    miscounted_scopes,
    take_member_row,
    take_scope_row,
    wrong_member_counts,
)
from accountant.replay.pending_requests import miscounted_pending, take_pending_row
from accountant.replay.reservations import miscounted_reservations, take_reservation_row

TakeRow = Callable[[Partition, bytes, bytes | None], None]


class TableRows(NamedTuple):
    """The rows of a table.

    Attributes:
        words: what they are, in the words of an error.
        has_key: whether a key of `state` is that of such a row.
        take: takes a row, or with None its removal.
        miscounted: why the rows do not agree with those of their datasets, None if they do.
    """

    words: str
    has_key: Callable[[bytes], bool]
    take: TakeRow
    miscounted: Callable[[Partition], str | None]


ROWS: Final[Mapping[TableName, TableRows]] = MappingProxyType(
    {
        "members": TableRows("members", is_member_row_key, take_member_row, wrong_member_counts),
        "levels": TableRows("levels", is_scope_row_key, take_scope_row, miscounted_scopes),
        "reservations": TableRows(
            "reservations", is_reservation_row_key, take_reservation_row, miscounted_reservations
        ),
        "pending": TableRows(
            "requests for approval", is_pending_row_key, take_pending_row, miscounted_pending
        ),
        "asks": TableRows("asks", is_ask_row_key, take_ask_row, wrong_asks),
    }
)


def take_of_row(key: bytes) -> TakeRow | None:
    """Return what takes a row of a table, None for a key of another row."""
    return next((rows.take for rows in ROWS.values() if rows.has_key(key)), None)
