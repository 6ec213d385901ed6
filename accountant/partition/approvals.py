"""Requests that wait for an owner's approval, and the owner's answer, which is the grant."""

from __future__ import annotations

import hashlib
from typing import Final, Protocol

import msgspec
from msgspec import UNSET

from accountant.dataset_ledger import DatasetLedger
from accountant.limits.store import end_limits
from accountant.partition.draft import Draft
from accountant.partition.judge import Approvals
from accountant.records import First
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.outcomes import Reason
from accountant.records.pending_rows import PendingRow
from accountant.records.records import PendingUpdate
from accountant.records.requests import Approve, Deny, MechanismRequest
from accountant.reservations.held import drop_final
from accountant.times import iso
from accountant.versions import FORMAT

Answer = Approve | Deny
_sha256: Final = hashlib.sha256


def approvals_of(draft: Draft) -> Approvals:
    """Return what decides whether a request of a partition may wait."""
    return Approvals(draft.pending.of, draft.members.of)


def clock_of(ledger: DatasetLedger, at: int) -> int:
    """Return the time that a request's deadline is compared with."""
    return max(at, ledger.changed_at)


class DueRows(Protocol):
    """Drops rows that are not kept any more; see `PendingChanges.take_due`."""

    def take_due(self, dataset: str, at: int) -> int: ...


def drop_due(table: DueRows, ledger: DatasetLedger, at: int) -> DatasetLedger:
    """Drop a dataset's first rows that are not kept any more, as each of its decisions begins.

    A live decision and a replay both call this.

    Args:
        ledger: before the decision.
        at: the decision's time, milliseconds since 1970.
    """
    if not ledger.pending:
        return ledger
    return with_pending(ledger, -table.take_due(ledger.dataset, clock_of(ledger, at)))


def begin_decision(draft: Draft, ledger: DatasetLedger) -> DatasetLedger:
    """Return a dataset's ledger as its next decision finds it, without what is over by then."""
    at = draft.decided_at
    if ledger.limits:
        end_limits(draft.levels, ledger.dataset, at, ledger.sequence + 1)
    if ledger.held is not None:
        ledger = drop_final(draft.reservations, ledger, at)
    return drop_due(draft.pending, ledger, at)


def with_pending(ledger: DatasetLedger, more: int) -> DatasetLedger:
    """Return a ledger with another number of rows. A live decision and a replay both call this."""
    if not more:
        return ledger
    return msgspec.structs.replace(ledger, pending=ledger.pending + more)


def pending_row(
    ledger: DatasetLedger, request: MechanismRequest, body: bytes, at: int, resets: int
) -> PendingRow:
    """Return the row of a request that begins to wait, but for the place and hash of its decision.

    A live decision and a replay both call this.

    Args:
        ledger: after the decision.
        resets: how many times the partition's clock has been set back.
    """
    return PendingRow(
        version=FORMAT,
        dataset=ledger.dataset,
        pending="",
        sequence=ledger.sequence,
        partition_sequence=0,
        pending_at=at,
        analyst=request.analyst,
        via=request.via,
        request_id=request.request_id,
        deadline=at + ledger.plan.approve_ms,
        resets=resets or UNSET,
        body=msgspec.Raw(body),
        body_hash=_sha256(body).hexdigest(),
    )


def placed_row(row: PendingRow, encoded: EncodedDecision) -> PendingRow:
    """Return a row that the hash of its decision names."""
    return msgspec.structs.replace(
        row,
        pending=f"sha256:{encoded.digest.hex()}",
        partition_sequence=encoded.partition_sequence,
    )


def answered_row(row: PendingRow, first: First) -> PendingRow:
    """Return the row of a request that an owner has answered, for its repeats."""
    return msgspec.structs.replace(row, body=UNSET, first=first)


def update_of(row: PendingRow, answer: Answer | None = None) -> PendingUpdate:
    """Return what a decision says of a row.

    Args:
        answer: the owner's record that it is the decision on.
    """
    if answer is None:
        return PendingUpdate(iso(row.deadline), row.analyst)
    return PendingUpdate(iso(row.deadline), row.analyst, answer.by, answer.reason, answer.pending)


def answer_refusal(row: PendingRow | None, answer: Answer, at: int, resets: int) -> Reason | None:
    """Return why an owner may not answer a request, None where they may.

    Args:
        at: as of `clock_of`. `resets`: how many times the clock has been set back.
    """
    if row is None:
        return Reason.NOT_PENDING
    if not row.is_open:
        return Reason.ALREADY_ANSWERED
    if not row.waits(at, resets):
        return Reason.LAPSED
    if isinstance(answer, Approve) and answer.by in {row.analyst, row.via}:
        return Reason.OWN_REQUEST
    return None


def first_of(encoded: EncodedDecision, cost: dict[str, str] | None) -> First:
    """Return a decision as the repeats of the request that it answers show it."""
    return First(
        partition_sequence=encoded.partition_sequence,
        decided_at=iso(encoded.decided_at),
        outcome=encoded.outcome,
        hash=f"sha256:{encoded.digest.hex()}",
        reason=encoded.reason,
        cost=cost,
    )
