"""Members back from decisions and from rows of `state`."""

from __future__ import annotations

from accountant.partition import Partition
from accountant.partition.checksum import crc_of_row
from accountant.records import Decision
from accountant.records.members import (
    MemberRow,
    decode_member_row,
    member_row,
    member_row_key,
    named_in,
    owner_rows,
)


def members_set(decision: Decision) -> list[tuple[str, MemberRow | None]]:
    """Return the members that a decision has set, each with its row; None for a removed one."""
    dataset, sequence = str(decision.dataset), int(decision.sequence or 0)
    member = decision.member
    if member is not None:
        return [(member.member, member_row(dataset, sequence, member) if member.roles else None)]
    return [(row.member, row) for row in owner_rows(dataset, sequence, decision.owners)]


def take_members(partition: Partition, decision: Decision) -> tuple[int, int]:
    """Set the members that a decision names, as the log has them.

    Returns: how many owners, and how many members, the dataset has more.
    """
    dataset, owners, members = str(decision.dataset), 0, 0
    for name, row in members_set(decision):
        before = partition.members.get(dataset, name)
        owners += _is_owner(row) - _is_owner(before)
        members += (row is not None) - (before is not None)
        partition.checksum.forget(member_row_key(dataset, name).decode())
        if row is None:
            partition.members.remove(dataset, name)
        else:
            partition.members.put(row)
    return owners, members


def _is_owner(row: MemberRow | None) -> bool:
    return row is not None and "owner" in row.roles


def take_member_row(partition: Partition, key: bytes, value: bytes | None) -> None:
    """Take a member's row of `state`, None for a removed one.

    Raises: ValueError, msgspec.MsgspecError: it cannot be read, or is another's.
    """
    partition.checksum.forget(key.decode())
    if value is None:
        partition.members.remove(*named_in(key))
        return
    row = decode_member_row(value)
    if member_row_key(row.dataset, row.member) != key:
        raise ValueError(f"it holds member {row.member} of dataset {row.dataset}")
    partition.members.put(row)
    partition.checksum.put(key.decode(), crc_of_row(value))


def miscounted(partition: Partition) -> str | None:
    """Return which dataset's row counts other members than there are rows, in words."""
    counted = 0
    for name, ledger in partition.ledgers.items():
        rows = partition.members.of(name).values()
        held = sum(map(_is_owner, rows)), len(rows)
        counted += len(rows)
        if held != (ledger.owners, ledger.members):
            return (
                f"state holds {held[0]} owners and {held[1]} members of dataset {name}, its row "
                f"says {ledger.owners} and {ledger.members}"
            )
    if counted != partition.members.count:
        return "state holds members of a dataset that it does not hold"
    return None
