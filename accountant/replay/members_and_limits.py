"""Members and limits rebuilt from decisions and from rows of `state`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from accountant.checksum import crc_of_row
from accountant.errors import LogDamaged
from accountant.ledger import Ledger
from accountant.limits.apply import apply_grant, apply_record
from accountant.limits.state import Key, LimitState, limit_state_of, texts_of
from accountant.limits.wire import LimitRecord, LimitUpdate, decode_level_row, level_row_key
from accountant.partition import Partition
from accountant.partition.ids import decode_identity
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


def wrong_member_counts(partition: Partition) -> str | None:
    """Return which dataset's row counts other members than there are rows, in words."""
    counted = 0
    for name, ledger in partition.ledgers.items():
        rows = partition.members.of(name).values()
        held = sum(map(_is_owner, rows)), len(rows)
        counted += len(rows)
        if held != (ledger.owners, ledger.members):
            return (
                f"`state` has {held[0]} owners and {held[1]} members of dataset {name}, but its "
                f"row says {ledger.owners} and {ledger.members}"
            )
    if counted != partition.members.count:
        return "`state` has members of a dataset that it does not have"
    return None


def take_levels(partition: Partition, ledger: Ledger, decision: Decision) -> tuple[int, int]:
    """Set the limits that a decision has moved, as the log has them, without computing again.

    Args:
        ledger: the dataset's, after the decision.
    Returns: how many rows of levels, and how many limits in force, the dataset has more.
    """
    rows = limits = 0
    for key, level in _levels_set(partition, ledger, decision):
        before = partition.levels.get(key)
        partition.checksum.forget(level_row_key(*key).decode())
        partition.levels.put(level)
        rows += before is None
        limits += level.is_in_force - (before is not None and before.is_in_force)
    return rows, limits


def _levels_set(
    partition: Partition, ledger: Ledger, decision: Decision
) -> list[tuple[Key, LimitState]]:
    record, dataset, sequence = decision.limit, ledger.dataset, int(decision.sequence or 0)
    if record is not None:
        key = dataset, record.scope, "", record.name or ""
        before = partition.levels.get(key)
        at = partition.decided_at
        return [(key, apply_record(before, dataset, record, ledger.plan, at, sequence))]
    return [_after_grant(partition, ledger, decision, moved) for moved in decision.levels]


def _after_grant(
    partition: Partition, ledger: Ledger, decision: Decision, moved: LimitUpdate
) -> tuple[Key, LimitState]:
    dataset, name = ledger.dataset, moved.name or ""
    key: Key = dataset, moved.scope, "", name
    rule_of = partition.levels.get(key)
    if rule_of is None or rule_of.rule is None or rule_of.rule.record.version != moved.version:
        raise LogDamaged(
            f"decision {decision.partition_sequence} charges version {moved.version} of a limit of "
            f"{moved.scope} {name}, which dataset {dataset} does not have"
        )
    level = rule_of
    if moved.scope == "each":
        key = dataset, "each", name, decode_identity(decision.request).analyst
        level = partition.levels.get(key) or LimitState(*key)
    sequence, resets = int(decision.sequence or 0), partition.resets.number
    return key, apply_grant(level, rule_of, moved, sequence, resets)


def take_level_row(partition: Partition, key: bytes, value: bytes | None) -> None:
    """Take a level's row of `state`; there is none that removes one.

    Raises: ValueError, msgspec.MsgspecError: it cannot be read, or is another's.
    """
    partition.checksum.forget(key.decode())
    level = limit_state_of(decode_level_row(value or b""))
    if level_row_key(*level.key) != key:
        raise ValueError(f"it holds the level {level.key}")
    partition.levels.put(level)
    partition.checksum.put(key.decode(), crc_of_row(value or b""))


def miscounted_levels(partition: Partition) -> str | None:
    """Return which dataset's row counts other levels than there are rows, in words."""
    rows, limits = Counter[str](), Counter[str]()
    for (dataset, *_), level in partition.levels.levels.items():
        rows[dataset] += 1
        limits[dataset] += level.is_in_force
    for name, ledger in partition.ledgers.items():
        held = rows.pop(name, 0), limits[name]
        if held != (ledger.levels, ledger.limits):
            return (
                f"`state` has {held[0]} levels and {held[1]} limits of dataset {name}, but its "
                f"row says {ledger.levels} and {ledger.limits}"
            )
    if rows:
        return "`state` has levels of a dataset that it does not have"
    return None


def differing_levels(
    partition: Partition, decision: Decision
) -> Iterator[tuple[str, object, object]]:
    """Yield which field of a level's row is not as a decision has left it.

    Yields: the field, what the row has, and what the decision has.
    """
    record, dataset = decision.limit, str(decision.dataset)
    if record is not None:
        level = partition.levels.get((dataset, record.scope, "", record.name or ""))
        found = None if level is None or level.rule is None else level.rule.record
        if found != record:
            yield f"level {_named(record)}: limit", found, record
    for moved in decision.levels:
        key: Key = dataset, moved.scope, "", moved.name or ""
        if moved.scope == "each":
            analyst = decode_identity(decision.request).analyst
            key = dataset, "each", moved.name or "", analyst
        level = partition.levels.get(key) or LimitState(*key)
        for field, count, due in (
            ("counted", level.counted, (moved.totals, moved.rounded_up)),
            ("paced", level.period_usage, (moved.paced, moved.paced_rounded_up)),
            ("used", level.used, (moved.used, moved.used_rounded_up)),
        ):
            held = None if count is None else texts_of(count.sums, count.amounts)
            if due[0] is not None and held != due:
                yield f"level {_named(moved)}: {field}", held, due


def _named(record: LimitRecord | LimitUpdate) -> str:
    return f"{record.scope} {record.name}" if record.name else record.scope
