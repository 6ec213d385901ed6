"""The port between a processor and its journal: one partition's inputs, decisions and state.

One contract suite tests the three adapters (memory, SQLite, Kafka). Each adapter translates its
library's errors into `streams.errors`, so the processor sees no library's errors.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from accountant.records import DECODE_ERRORS, Source, decode_decision
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.inputs import Input
from accountant.replay.sealed_log import SealSnapshot
from accountant.times import from_iso

DEAD_LETTER_BYTES: Final = 4096
"""Longest stored value of a dead letter, in bytes; its key may have a quarter of that."""


class DeadLetter(NamedTuple):
    """An input that could not be decided as a request, stored for an operator.

    Attributes:
        record: the input.
        reason: the code of its decision.
    """

    record: Input
    reason: str


class Commit(NamedTuple):
    """The content of one transaction. Either all of it becomes visible, or nothing.

    Attributes:
        decisions: in the order of their numbers.
        rows: of `state`, the partition's own row last; a value of None deletes.
        dead_letters: inputs to store as dead letters.
        next: the next offset of each input, only a hint for displays of the lag.
        at: the partition's `decided_at`, milliseconds since 1970; it dates rows and dead letters.
    """

    decisions: Sequence[EncodedDecision]
    rows: Sequence[tuple[bytes, bytes | None]]
    dead_letters: Sequence[DeadLetter]
    next: Mapping[Source, int]
    at: int


class Journal(Protocol):
    """One partition of the log, owned by at most one processor at a time.

    Calls come in this order: `own`, then `rows` and `decisions` to their ends, `seek`, then
    `read` and `commit` in turn; after any error, `drop`, and again from `own`.
    """

    @property
    def partition(self) -> int:
        """Number of the partition."""
        ...

    @property
    def gapless(self) -> bool:
        """Whether each input of a source has the next offset."""
        ...

    async def own(self) -> None:
        """Become the only writer, and fix the end up to which `rows` and `decisions` read.

        When this returns, no earlier owner can commit any more, and every commit of an earlier
        owner lies before that end.
        Raises: Unavailable, Refused.
        """
        ...

    def rows(self) -> AsyncIterator[tuple[bytes, bytes | None]]:
        """Yield the committed records of `state` in order; later ones replace earlier ones."""
        ...

    def decisions(self, since: int | None) -> AsyncIterator[bytes]:
        """Yield committed decisions in order, to the end, always including the last one.

        Args:
            since: skip decisions made before this time, milliseconds since 1970; an adapter
                may skip fewer. None for all, from decision 0.
        """
        ...

    async def read_snapshot(self) -> SealSnapshot | None:
        """Return the snapshot that replaces the log's beginning, None if it was not archived.

        With a snapshot, `decisions` yields decision 0 and those after the archived ones.
        """
        ...

    async def last_decisions(self, changed_at: Mapping[str, int]) -> list[bytes] | None:
        """Return the last decision of each of some datasets, and perhaps others.

        Args:
            changed_at: time of the decision by dataset, milliseconds since 1970. It comes from
                rows of `state`, which may be wrong.
        Returns: None if this would need a read of the whole log.
        """
        ...

    async def admin_decisions(self) -> list[bytes] | None:
        """Return the decisions on records of administrators in order, and perhaps others.

        Returns: None if this would need a read of the whole log.
        """
        ...

    async def seek(self, offsets: Mapping[Source, int]) -> None:
        """Continue reading the inputs at the offsets that the log implies."""
        ...

    async def read(self, limit: int, wait: float) -> list[Input]:
        """Return the next input records, at most `limit`, waiting at most `wait` seconds.

        Within a source, each record's offset is higher than the one before.
        Raises: Unavailable.
        """
        ...

    async def commit(self, commit: Commit) -> None:
        """Write one transaction. Returns only if it is certain to be visible and durable.

        Raises: Fenced, CommitUnknown, Unavailable. After any error it is unknown whether the
        transaction was written.
        """
        ...

    async def drop(self) -> None:
        """Release everything at once: flush, abort and send nothing. Never raises."""
        ...


def decided_at(value: bytes) -> float:
    """Return the time of a decision of a log, in milliseconds since 1970.

    Returns: infinity for an unreadable decision: the reader then takes it, and the chain fails.
    """
    try:
        return from_iso(decode_decision(value).decided_at)
    except (*DECODE_ERRORS, ValueError):
        return math.inf


def new_ledger_id() -> str:
    """Return 128 random bits as hexadecimal text."""
    return secrets.token_hex(16)
