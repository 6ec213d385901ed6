"""Requests that wait for approval, rebuilt from decisions and from rows of `state`."""

from __future__ import annotations

import msgspec

from accountant.approvals.pending_table import PendingTable, due_rows
from accountant.checksum import crc_of_row
from accountant.dataset_ledger import DatasetLedger
from accountant.errors import LogDamaged
from accountant.partition import Partition
from accountant.partition.approvals import answered_row, pending_row, with_pending
from accountant.records import Decision, First
from accountant.records.pending_rows import (
    PendingRow,
    decode_pending_row,
    parse_pending_key,
    pending_row_key,
)
from accountant.records.requests import MechanismRequest
from accountant.times import from_iso

_decode_request = msgspec.json.Decoder(MechanismRequest).decode


class ReplayedPending:
    """A partition's requests that wait, as decisions of the log change them."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._table: PendingTable = partition.pending

    def take_due(self, dataset: str, at: int) -> int:
        """Drop rows that are not kept any more, as `PendingChanges.take_due`."""
        if at < self._table.next_due(dataset):
            return 0
        taken = due_rows(self._table.of(dataset).values(), at)
        for row in taken:
            self._forget(row)
            self._table.remove(*row.key)
        kept = self._table.of(dataset).values()
        if kept:
            self._table.set_next_due(dataset, min(row.due for row in kept))
        return len(taken)

    def put(self, row: PendingRow) -> None:
        """Replace a row."""
        self._forget(row)
        self._table.put(row)

    def _forget(self, row: PendingRow) -> None:
        self._partition.checksum.forget(pending_row_key(*row.key).decode())


def take_pending(
    partition: Partition, after: DatasetLedger, decision: Decision, digest: str
) -> DatasetLedger:
    """Apply what a decision says of a request that waits; return the ledger with its rows counted.

    Args:
        after: the dataset's, after the decision.
        digest: hash of the decision.
    Raises: LogDamaged: no request waits that it answers.
    """
    table = ReplayedPending(partition)
    if decision.outcome.waits:
        body = bytes(decision.request)
        at, resets = from_iso(decision.decided_at), partition.resets.number
        row = pending_row(after, _decode_request(body), body, at, resets)
        number = decision.partition_sequence
        table.put(msgspec.structs.replace(row, pending=digest, partition_sequence=number))
        return with_pending(after, 1)
    if decision.pending is None:
        return after
    found = partition.pending.get(str(decision.dataset), str(decision.pending.request))
    if found is None or not found.is_open:
        raise LogDamaged(
            f"decision {decision.partition_sequence} answers {decision.pending.request} of dataset "
            f"{decision.dataset}, which does not wait"
        )
    first = First(
        partition_sequence=decision.partition_sequence,
        decided_at=decision.decided_at,
        outcome=decision.outcome,
        hash=digest,
        reason=decision.reason,
        cost=decision.cost,
    )
    table.put(answered_row(found, first))
    return after


def take_pending_row(partition: Partition, key: bytes, value: bytes | None) -> None:
    """Apply a row of `state`, None for one that is not kept any more.

    Raises: ValueError, msgspec.MsgspecError: the row cannot be read or does not match its key.
    """
    partition.checksum.forget(key.decode())
    if value is None:
        partition.pending.remove(*parse_pending_key(key))
        return
    row = decode_pending_row(value)
    if pending_row_key(*row.key) != key:
        raise ValueError(f"it holds the request {row.pending} of dataset {row.dataset}")
    partition.pending.put(row)
    partition.checksum.put(key.decode(), crc_of_row(value))


def miscounted_pending(partition: Partition) -> str | None:
    """Return in words which dataset's row disagrees with its requests, or None."""
    counted = 0
    for name, ledger in partition.ledgers.items():
        found = len(partition.pending.of(name))
        counted += found
        if found != ledger.pending:
            return (
                f"`state` has {found} requests for approval of dataset {name}, but its row says "
                f"{ledger.pending}"
            )
    if counted != partition.pending.count:
        return "`state` has requests for approval of a dataset that it does not have"
    return None
