"""Rows of `state`: a partition's own, and what keys and forms the others have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, get_args

import msgspec

from accountant.records.asks import AskRow, ask_row_key
from accountant.records.dataset_row import Snapshot
from accountant.records.limit_records import ScopeRow, scope_row_key
from accountant.records.members import MemberRow, member_row_key
from accountant.records.pending_rows import PendingRow, pending_row_key
from accountant.records.records import Genesis
from accountant.records.reservation_rows import ReservationRow, reservation_row_key
from accountant.times import ClockResets
from accountant.versions import Format, check_maker, reader


class NextOffsets(msgspec.Struct, frozen=True):
    """The next offset to decide of each input."""

    requests: int = 0
    admin: int = 0


TableName = Literal["members", "levels", "reservations", "pending", "asks"]
TABLES: Final[tuple[TableName, ...]] = get_args(TableName)
"""What datasets have beside their own rows, in the order of the rows."""


class PartitionRow(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="partition"):
    """One partition's row in `state`: its head, written with every commit.

    Attributes:
        rules: as in the last decision.
        genesis: as in decision 0.
        partition_sequence, head: number and hash of the last decision.
        next: the next offset of each input: `requests`, `admin`.
        datasets: number of datasets.
        members, levels, reservations, pending, asks: numbers of rows, left out if 0.
        checksum: 16 hexadecimal digits: the sum of the CRC-32 of all rows and, with `resets`, of
            that of the text `[resets,reset_at]`. Left out in the snapshot of a seal.
        decided_at, floor: as in the last decision.
        branch, key: once the log has accepted a rollback, or changed its key.
        resets, reset_at: once its clock was reset: how often, and the time that was set last.
    """

    version: Format
    rules: int
    genesis: Genesis
    partition_sequence: int
    head: str
    decided_at: int
    floor: int
    next: NextOffsets
    datasets: int
    checksum: str | msgspec.UnsetType = msgspec.UNSET
    branch: int | msgspec.UnsetType = msgspec.UNSET
    key: str | msgspec.UnsetType = msgspec.UNSET
    members: int | msgspec.UnsetType = msgspec.UNSET
    levels: int | msgspec.UnsetType = msgspec.UNSET
    reservations: int | msgspec.UnsetType = msgspec.UNSET
    pending: int | msgspec.UnsetType = msgspec.UNSET
    asks: int | msgspec.UnsetType = msgspec.UNSET
    resets: int | msgspec.UnsetType = msgspec.UNSET
    reset_at: int | msgspec.UnsetType = msgspec.UNSET

    @property
    def clock_resets(self) -> ClockResets:
        """Both fields of the clock's resets."""
        return ClockResets(self.resets or 0, self.reset_at or 0)

    @property
    def rows(self) -> int:
        """Number of the partition's other rows."""
        return self.datasets + sum(map(self.count_of, TABLES))

    def count_of(self, table: TableName) -> int:
        """Return the number of rows of a table."""
        return getattr(self, table) or 0


_decode_partition_row = msgspec.json.Decoder(PartitionRow).decode


def decode_partition_row(value: bytes) -> PartitionRow:
    """Return a partition's row from its bytes.

    Raises:
        MadeByAnother: as `check_maker`.
        DECODE_ERRORS: it cannot be read.
    """
    check_maker(value)
    return _decode_partition_row(value)


def partition_row_key(partition: int) -> bytes:
    """Return the key of a partition's row, outside the grammar of dataset names."""
    return b'{"partition":%d}' % partition


Row = Snapshot | MemberRow | ScopeRow | ReservationRow | PendingRow | AskRow
"""A row of a dataset, a member, a level, a reservation, a request that waits or an ask."""
decode_row: Callable[[bytes], Row] = reader(Row)  # type: ignore[arg-type]


def key_of_row(row: Row) -> bytes:
    """Return the key of a row."""
    if isinstance(row, ScopeRow):
        return scope_row_key(row.dataset, row.scope, row.team or "", row.name)
    if isinstance(row, MemberRow):
        return member_row_key(row.dataset, row.member)
    if isinstance(row, ReservationRow):
        return reservation_row_key(row.dataset, row.grant)
    if isinstance(row, PendingRow):
        return pending_row_key(*row.key)
    if isinstance(row, AskRow):
        return ask_row_key(row.dataset, row.ask)
    return row.dataset.encode()
