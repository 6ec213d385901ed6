"""What a decision says that seals a log: its beginning is in an archive."""

from __future__ import annotations

import msgspec


class Seal(msgspec.Struct, frozen=True, kw_only=True):
    """What stands for the beginning of a log once that is in an archive.

    Attributes:
        first: hash of decision 0, which stays in the log.
        archived: number of the last decision that is in an archive.
        head: its hash.
        state: hash of the state before this decision, see `accountant.replay.sealed`.
        usage: hash of the usage before this decision.
    """

    first: str
    archived: int
    head: str
    state: str
    usage: str
