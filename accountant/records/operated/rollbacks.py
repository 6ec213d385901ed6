"""What a decision says that accepts the loss of decisions which a checkpoint has seen."""

from __future__ import annotations

import msgspec


class Rollback(msgspec.Struct, frozen=True, kw_only=True):
    """A log goes on from an older copy, and says for ever what it has lost.

    Attributes:
        branch: the log's from now on, above that of every checkpoint that was seen.
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


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A rollback in a log.

    Attributes:
        partition_sequence, decided_at, previous, note: of the decision that says it.
    """

    partition_sequence: int
    decided_at: str
    previous: str
    note: str
    rollback: Rollback
