"""Members and limits rebuilt from decisions and from rows of `state`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from accountant.checksum import crc_of_row
from accountant.dataset_ledger import DatasetLedger
from accountant.errors import LogDamaged
from accountant.limits.apply import apply_grant, apply_record
from accountant.limits.cut_shares import cut_shares
from accountant.limits.state import Key, LimitState, limit_state_of, texts_of
from accountant.limits.store import end_limits
from accountant.limits.thresholds import key_of, with_reported
from accountant.partition import Partition
from accountant.partition.ids import analyst_charged
from accountant.records import Decision
from accountant.records.limit_records import (
    LimitRecord,
    LimitUpdate,
    ReachedLimit,
    decode_scope_row,
    scope_row_key,
)
from accountant.records.members import (
    MemberRow,
    decode_member_row,
    member_row,
    member_row_key,
    owner_rows,
    parse_member_key,
)


def member_rows_set_by(decision: Decision) -> list[tuple[str, MemberRow | None]]:
    """Return the members that a decision sets, each with its row; None for a removed one."""
    dataset, sequence = str(decision.dataset), int(decision.sequence or 0)
    member = decision.member
    if member is not None:
        return [(member.member, member_row(dataset, sequence, member) if member.roles else None)]
    return [(row.member, row) for row in owner_rows(dataset, sequence, decision.owners)]


def take_members(partition: Partition, decision: Decision) -> tuple[int, int]:
    """Apply the members that a decision sets.

    Returns: the changes of the dataset's number of owners and of members.
    """
    dataset, owners, members = str(decision.dataset), 0, 0
    for name, row in member_rows_set_by(decision):
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
    """Apply a member's row of `state`, None for a removed one.

    Raises: ValueError, msgspec.MsgspecError: the row cannot be read or does not match its key.
    """
    partition.checksum.forget(key.decode())
    if value is None:
        partition.members.remove(*parse_member_key(key))
        return
    row = decode_member_row(value)
    if member_row_key(row.dataset, row.member) != key:
        raise ValueError(f"it holds member {row.member} of dataset {row.dataset}")
    partition.members.put(row)
    partition.checksum.put(key.decode(), crc_of_row(value))


def wrong_member_counts(partition: Partition) -> str | None:
    """Return in words which dataset's row disagrees with the number of its members, or None."""
    counted = 0
    for name, ledger in partition.ledgers.items():
        rows = partition.members.of(name).values()
        found = sum(map(_is_owner, rows)), len(rows)
        counted += len(rows)
        if found != (ledger.owners, ledger.members):
            return (
                f"`state` has {found[0]} owners and {found[1]} members of dataset {name}, but its "
                f"row says {ledger.owners} and {ledger.members}"
            )
    if counted != partition.members.count:
        return "`state` has members of a dataset that it does not have"
    return None


def take_scopes(partition: Partition, ledger: DatasetLedger, decision: Decision) -> tuple[int, int]:
    """Apply the limits that a decision sets or charges. Its amounts are copied, not recomputed.

    Args:
        ledger: the dataset's, after the decision.
    Returns: the changes of the dataset's number of rows of limits, and of limits in force.
    """
    rows = limits = 0
    for key, state in _limits_set_by(partition, ledger, decision):
        before = partition.levels.get(key)
        partition.checksum.forget(scope_row_key(*key).decode())
        partition.levels.put(state)
        rows += before is None
        limits += state.is_set - (before is not None and before.is_set)
    for each in decision.reached:
        state = _state_reached(partition, ledger, decision, each)
        partition.checksum.forget(scope_row_key(*state.key).decode())
        partition.levels.put(state)
    return rows, limits


def end_replayed(partition: Partition, dataset: str, sequence: int | None) -> None:
    """End the limits of a dataset that are over at the partition's time, as a decision did.

    Args:
        sequence: the decision's number in the dataset; None if it has none.
    """
    for state in end_limits(partition.levels, dataset, partition.decided_at, sequence):
        partition.checksum.forget(scope_row_key(*state.key).decode())


def cut_replayed(partition: Partition, ledger: DatasetLedger) -> None:
    """Cut the shares that a record of a release made elsewhere cuts, as it did.

    Args:
        ledger: the dataset's, after the decision.
    """
    for state in cut_shares(partition.levels, ledger).states:
        partition.checksum.forget(scope_row_key(*state.key).decode())
        partition.levels.put(state)


def _state_reached(
    partition: Partition, ledger: DatasetLedger, decision: Decision, reached: ReachedLimit
) -> LimitState:
    """Return a limit's state after an amendment, or its own new version, has reported it."""
    name = reached.name or ""
    limit = partition.levels.get((ledger.dataset, reached.scope, "", name))
    state = partition.levels.get(key_of(ledger.dataset, reached, reached.analyst or ""))
    if limit is None or limit.rule is None or state is None:
        raise LogDamaged(
            f"decision {decision.partition_sequence} reports a limit of {reached.scope} {name}, "
            f"which dataset {ledger.dataset} does not have"
        )
    sequence = int(decision.sequence or 0)
    return with_reported(state, state, limit.rule, ledger.plan, reached.crossed, sequence)


def _limits_set_by(
    partition: Partition, ledger: DatasetLedger, decision: Decision
) -> list[tuple[Key, LimitState]]:
    record, dataset, sequence = decision.limit, ledger.dataset, int(decision.sequence or 0)
    if record is not None:
        key = dataset, record.scope, "", record.name or ""
        before = partition.levels.get(key)
        at = partition.decided_at
        return [(key, apply_record(before, dataset, record, ledger.plan, at, sequence))]
    changed = [
        limit_after_update(partition, ledger, decision, update) for update in decision.levels
    ]
    return [(after.key, after) for _, _, after in changed]


def limit_after_update(
    partition: Partition, ledger: DatasetLedger, decision: Decision, update: LimitUpdate
) -> tuple[LimitState, LimitState, LimitState]:
    """Return what a decision has charged a limit, or given back.

    Returns: the state before it, the limit whose rule applies, and the state after it.
    Raises: LogDamaged: the dataset has no such limit.
    """
    dataset, name = ledger.dataset, update.name or ""
    key: Key = dataset, update.scope, "", name
    limit = partition.levels.get(key)
    if limit is None or limit.rule is None or limit.rule.record.version != update.version:
        raise LogDamaged(
            f"decision {decision.partition_sequence} charges version {update.version} of a limit "
            f"of {update.scope} {name}, which dataset {dataset} does not have"
        )
    state = limit
    if update.scope == "each":
        state = _state_of(partition, dataset, update, analyst_charged(decision))
    sequence, resets = int(decision.sequence or 0), partition.resets.number
    return state, limit, apply_grant(state, limit, update, sequence, resets, ledger.plan)


def take_scope_row(partition: Partition, key: bytes, value: bytes | None) -> None:
    """Apply a limit's row of `state`; no row removes a limit.

    Raises: ValueError, msgspec.MsgspecError: the row cannot be read or does not match its key.
    """
    partition.checksum.forget(key.decode())
    state = limit_state_of(decode_scope_row(value or b""))
    if scope_row_key(*state.key) != key:
        raise ValueError(f"it holds the level {state.key}")
    partition.levels.put(state)
    partition.checksum.put(key.decode(), crc_of_row(value or b""))


def miscounted_scopes(partition: Partition) -> str | None:
    """Return in words which dataset's row disagrees with the number of its limits, or None."""
    rows, limits = Counter[str](), Counter[str]()
    for (dataset, *_), state in partition.levels.levels.items():
        rows[dataset] += 1
        limits[dataset] += state.is_set
    for name, ledger in partition.ledgers.items():
        found = rows.pop(name, 0), limits[name]
        if found != (ledger.levels, ledger.limits):
            return (
                f"`state` has {found[0]} levels and {found[1]} limits of dataset {name}, but its "
                f"row says {ledger.levels} and {ledger.limits}"
            )
    if rows:
        return "`state` has levels of a dataset that it does not have"
    return None


def differing_scopes(
    partition: Partition, decision: Decision
) -> Iterator[tuple[str, object, object]]:
    """Yield each field in which a limit's row disagrees with a decision.

    Yields: the field, its value in the row, and its value in the decision.
    """
    record, dataset = decision.limit, str(decision.dataset)
    if record is not None:
        state = partition.levels.get((dataset, record.scope, "", record.name or ""))
        stored_record = None if state is None or state.rule is None else state.rule.record
        if stored_record != record:
            yield f"level {_label(record)}: limit", stored_record, record
    for each in decision.reached:
        yield from _differing_thresholds(partition, dataset, each, each.analyst or "")
    for update in decision.levels:
        analyst = analyst_charged(decision) if update.scope == "each" else ""
        yield from _differing_thresholds(partition, dataset, update, analyst)
        state = _state_of(partition, dataset, update, analyst)
        for field, count, due in (
            ("counted", state.counted, (update.totals, update.rounded_up)),
            ("paced", state.period_usage, (update.paced, update.paced_rounded_up)),
            ("used", state.used, (update.used, update.used_rounded_up)),
        ):
            stored = None if count is None else texts_of(count.sums, count.amounts)
            if due[0] is not None and stored != due:
                yield f"level {_label(update)}: {field}", stored, due


def _state_of(
    partition: Partition, dataset: str, named: LimitUpdate | ReachedLimit, analyst: str
) -> LimitState:
    key = key_of(dataset, named, analyst)
    return partition.levels.get(key) or LimitState(*key)


def _differing_thresholds(
    partition: Partition, dataset: str, named: LimitUpdate | ReachedLimit, analyst: str
) -> Iterator[tuple[str, object, object]]:
    reported = _state_of(partition, dataset, named, analyst).reported
    stored = reported.ratios if reported is not None else ()
    if not set(named.crossed) <= set(stored):
        yield f"level {_label(named)}: reported", stored, named.crossed


def _label(record: LimitRecord | LimitUpdate | ReachedLimit) -> str:
    return f"{record.scope} {record.name}" if record.name else record.scope
