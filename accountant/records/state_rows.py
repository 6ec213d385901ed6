"""Rows of `state`: a partition's own, and what keys and forms the others have."""

from __future__ import annotations

import msgspec

from accountant.records.members import MemberRow, member_row_key
from accountant.records.records import VERSION, Genesis, Snapshot, check_maker


class NextOffsets(msgspec.Struct, frozen=True):
    """The next offset to decide of each input."""

    requests: int = 0
    admin: int = 0


class PartitionRow(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="partition"):
    """One partition's row in `state`: its head, written with every commit.

    Attributes:
        rules: of the last decision.
        datasets: number of rows of datasets in the partition.
        members: number of rows of members; left out while there is none.
        checksum: checksum of all those rows, see `accountant.partition.checksum`; rows of earlier
            versions lack it.
        branch: how many rollbacks the log has accepted; left out while there is none.
        key: public half of the key that signs checkpoints, where the log has changed it.
    """

    version: int = VERSION
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


_decode_partition_row = msgspec.json.Decoder(PartitionRow).decode


def decode_partition_row(value: bytes) -> PartitionRow:
    """Return a partition's row from its bytes.

    Raises:
        MadeByNewer: a newer version of this program made it.
        DECODE_ERRORS: it cannot be read.
    """
    check_maker(value)
    return _decode_partition_row(value)


def partition_row_key(partition: int) -> bytes:
    """Return the key of a partition's row, outside the grammar of dataset names."""
    return b'{"partition":%d}' % partition


decode_row = msgspec.json.Decoder(Snapshot | MemberRow).decode


def key_of_row(row: Snapshot | MemberRow) -> bytes:
    """Return the key of a dataset's or member's row."""
    if isinstance(row, MemberRow):
        return member_row_key(row.dataset, row.member)
    return row.dataset.encode()
