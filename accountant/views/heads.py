"""The end of a log, to be stored elsewhere."""

from __future__ import annotations

import msgspec

from accountant.field_rules import Count, Hash, Time
from accountant.partition import hash_of
from accountant.records import Genesis, decode_decision


class Head(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The end of one partition's log.

    The hash covers the whole log up to there: stored where the ledger's operators cannot change it,
    it shows later that nothing was cut off or rewritten (`accountant audit --head`).

    Attributes:
        ledger: the ledger's id; of one without, the hash of partition 0's decision 0.
        branch: how many losses of decisions the log has accepted; left out where that is unknown.
        partition_sequence, head: number and hash of the last decision.
        decided_at: of that one.
        note: the newest checkpoint that this process has signed, of that decision or an earlier
            one; left out where it signs none.
    """

    ledger: str
    partition: Count
    partition_sequence: Count
    head: Hash
    decided_at: Time
    branch: Count | msgspec.UnsetType = msgspec.UNSET
    note: str | msgspec.UnsetType = msgspec.UNSET


def head_of(
    ledger: str,
    partition: int,
    value: bytes,
    branch: int | None,
    note: bytes | None = None,
) -> Head:
    """Return the head of a log that ends with a decision."""
    decision = decode_decision(value)
    return Head(
        ledger=ledger,
        partition=partition,
        partition_sequence=decision.partition_sequence,
        head=hash_of(value),
        decided_at=decision.decided_at,
        branch=msgspec.UNSET if branch is None else branch,
        note=msgspec.UNSET if note is None else note.decode(),
    )


def ledger_of(first: bytes) -> str | None:
    """Return a ledger's id by decision 0 of its partition 0, None if that is no genesis.

    Raises: DECODE_ERRORS: it cannot be read.
    """
    genesis = decode_decision(first).genesis
    if genesis is None:
        return None
    return ledger_id_of(genesis, hash_of(first))


def ledger_id_of(genesis: Genesis, first_hash: str) -> str:
    """Return the id that a genesis gives the ledger: the record's own hash where it names none."""
    return first_hash if genesis.ledger is msgspec.UNSET else genesis.ledger
