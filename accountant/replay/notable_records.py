"""Records that every audit reports: accepted losses, changes of key, administrators' records."""

from __future__ import annotations

import msgspec

from accountant.partition import Partition
from accountant.partition.ids import decode_identity
from accountant.records import Decision
from accountant.records.members import Member, Role
from accountant.records.operator_records import (
    AcceptedRollback,
    KeyChange,
    KeyChangeRecord,
    Rollback,
)


class AdminMemberRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A membership that an administrator has set or removed, in place of an owner.

    Attributes:
        partition_sequence, decided_at: of its decision.
        by: the administrator.
        roles: what the member may do from then on; none after a removal.
        reason: as the administrator gave it.
    """

    partition_sequence: int
    decided_at: str
    dataset: str
    by: str
    member: str
    roles: tuple[Role, ...]
    reason: str


class AdminPauseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A dataset, a person or a team that an administrator has paused or resumed for the owners.

    Attributes:
        partition_sequence, decided_at: of its decision.
        by: the administrator.
        paused: false for a resume.
        reason: as the administrator gave it.
        member, team: the person or the team; none of a whole dataset.
    """

    partition_sequence: int
    decided_at: str
    dataset: str
    by: str
    paused: bool
    reason: str
    member: str | None = None
    team: str | None = None


class _WithReason(msgspec.Struct):
    reason: str = ""


_decode_given = msgspec.json.Decoder(_WithReason).decode


def admin_member_record(decision: Decision, member: Member) -> AdminMemberRecord:
    """Return an administrator's record as an audit reports it."""
    return AdminMemberRecord(
        partition_sequence=decision.partition_sequence,
        decided_at=decision.decided_at,
        dataset=str(decision.dataset),
        by=decode_identity(decision.request).by,
        member=member.member,
        roles=member.roles,
        reason=_decode_given(decision.request).reason,
    )


def admin_pause_record(decision: Decision) -> AdminPauseRecord:
    """Return an administrator's pause, or the end of one, as an audit reports it."""
    return AdminPauseRecord(
        partition_sequence=decision.partition_sequence,
        decided_at=decision.decided_at,
        dataset=str(decision.dataset),
        by=decode_identity(decision.request).by,
        paused=decision.outcome.pauses,
        reason=_decode_given(decision.request).reason,
        member=None if decision.pause is None else decision.pause.member,
        team=None if decision.pause is None else decision.pause.team,
    )


def accepted_rollback(decision: Decision, rollback: Rollback) -> AcceptedRollback:
    """Return a rollback with its decision."""
    return AcceptedRollback(
        partition_sequence=decision.partition_sequence,
        decided_at=decision.decided_at,
        previous=decision.previous,
        note=decision.note or "",
        rollback=rollback,
    )


def key_change_record(
    partition: Partition, decision: Decision, change: KeyChange
) -> KeyChangeRecord:
    """Return a change of key with its decision.

    Args:
        partition: as it was before.
    """
    return KeyChangeRecord(
        partition_sequence=decision.partition_sequence,
        decided_at=decision.decided_at,
        previous=decision.previous,
        note=decision.note or "",
        branch=partition.branch,
        change=change,
    )
