"""What a decision says that names another key, which signs checkpoints from then on."""

from __future__ import annotations

import msgspec


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


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """A change of key in a log.

    Attributes:
        partition_sequence, decided_at, previous, note: of the decision that says it.
        branch: of the log there.
    """

    partition_sequence: int
    decided_at: str
    previous: str
    note: str
    branch: int
    change: KeyChange
