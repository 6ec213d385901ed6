"""What an audit tells of for ever: losses that a log has accepted, and changes of its key."""

from __future__ import annotations

from accountant.partition import Partition
from accountant.records import Decision
from accountant.records.operated.key_changes import Changed, KeyChange
from accountant.records.operated.rollbacks import Accepted, Rollback


def accepted(decision: Decision, rollback: Rollback) -> Accepted:
    """Return a rollback with the decision that says it."""
    return Accepted(
        partition_sequence=decision.partition_sequence,
        decided_at=decision.decided_at,
        previous=decision.previous,
        note=decision.note or "",
        rollback=rollback,
    )


def changed(partition: Partition, decision: Decision, change: KeyChange) -> Changed:
    """Return a change of key with the decision that says it.

    Args:
        partition: as it was before.
    """
    return Changed(
        partition_sequence=decision.partition_sequence,
        decided_at=decision.decided_at,
        previous=decision.previous,
        note=decision.note or "",
        branch=partition.branch,
        change=change,
    )
