"""What decisions say that a command writes: a seal, an accepted rollback, another key."""

from __future__ import annotations

import msgspec


class Seal(msgspec.Struct, frozen=True, kw_only=True):
    """What replaces the beginning of a log once that is in an archive.

    Attributes:
        first: hash of decision 0, which stays in the log.
        archived: number of the last decision that is in an archive.
        head: its hash.
        state: hash of the state before this decision, see `accountant.replay.sealed_log`.
        usage: hash of the usage before this decision.
    """

    first: str
    archived: int
    head: str
    state: str
    usage: str


class Rollback(msgspec.Struct, frozen=True, kw_only=True):
    """A log continues from an older copy, and records for ever what it has lost.

    Attributes:
        branch: the log's from now on, above that of every known checkpoint.
        first, last: numbers of the decisions that were lost, or that the log has otherwise.
        head: hash of the last one, as the newest checkpoint has it.
        key: public half of the key that has signed this (`accountant key show`).
        signature: of `streams.evidence.rollbacks.text_of`, base64.
    """

    branch: int
    first: int
    last: int
    head: str
    key: str
    signature: str


class AcceptedRollback(msgspec.Struct, frozen=True, kw_only=True):
    """A rollback in a log.

    Attributes:
        partition_sequence, decided_at, previous, note: of its decision.
    """

    partition_sequence: int
    decided_at: str
    previous: str
    note: str
    rollback: Rollback


class KeyChange(msgspec.Struct, frozen=True, kw_only=True):
    """Another key signs the checkpoints of a partition's log.

    Attributes:
        key: public half of the new key (`accountant key show`).
        by: public half of the key that signed them until now.
        signature: of `streams.evidence.key_changes.text_of` by that key, base64; empty where it
            was lost.
    """

    key: str
    by: str
    signature: str = ""


class KeyChangeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A change of key in a log.

    Attributes:
        partition_sequence, decided_at, previous, note: of its decision.
        branch: of the log there.
    """

    partition_sequence: int
    decided_at: str
    previous: str
    note: str
    branch: int
    change: KeyChange
