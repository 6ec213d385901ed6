"""Follow a partition without deciding: its state from rows, moved by the decisions after them.

A follower compares rows with each other, by count and checksum, and the next decision with their
head. It does not compare a row with the decisions before it; the audit does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from accountant.errors import LedgerFault, LogDamaged, MadeByNewerVersion
from accountant.partition import Partition, hash_of
from accountant.records import (
    DECODE_ERRORS,
    RULES,
    Decision,
    Genesis,
    decode_decision,
    decode_partition_row,
    partition_row_key,
)
from accountant.records.header import DecisionHeader
from accountant.replay.apply import apply
from accountant.replay.replay import UNREADABLE, Replay, StateMismatch


class OtherLog(LedgerFault):
    """The log is not the one that the state comes from: start again from rows."""


class FollowedPartition:
    """The state of a partition as of a decision of its log.

    Attributes:
        state: of the last decision that was applied.
        is_confirmed: the log has that decision, as far as it was read.
    """

    def __init__(self, state: Partition) -> None:
        self.state = state
        self.is_confirmed = state.sequence < 0
        self._repeat: tuple[int, str] | None = None

    @classmethod
    def from_rows(cls, number: int, rows: Iterable[tuple[bytes, bytes]]) -> Self:
        """Return the state of a partition's rows, given by their keys.

        Raises:
            StateMismatch: they are not all rows of one moment, or one cannot be read.
            MadeByOtherVersion: another version has written them.
        """
        found = list(rows)
        try:
            own = decode_partition_row(dict(found).get(partition_row_key(number), b""))
        except DECODE_ERRORS as error:
            raise StateMismatch(f"the partition's row cannot be read: {error}") from error
        replay = Replay(own.genesis)
        for key, value in found:
            replay.take_row(key, value)
        try:
            return cls(replay.finish_rows())
        except UNREADABLE as error:
            raise StateMismatch(str(error)) from error

    @classmethod
    def from_beginning(cls, genesis: Genesis) -> Self:
        """Return the state of a partition before its first decision."""
        return cls(Partition(genesis))

    def take(self, line: Decision | DecisionHeader, value: bytes) -> Decision | None:
        """Apply the next decision of the log; return None for one that the state includes.

        Args:
            line: `value` decoded, or its header alone.

        Raises:
            OtherLog: decisions are missing, or the log has another one in the place of one.
            LogDamaged: it cannot be applied; the state is void.
        """
        state, number, digest = self.state, line.partition_sequence, hash_of(value)
        if number <= state.sequence:
            self._check_repeat(line, digest)
            return None
        if number != state.sequence + 1 or line.previous != state.head:
            raise OtherLog(
                f"found decision {number} after {line.previous}, expected decision "
                f"{state.sequence + 1} after {state.head}"
            )
        state.moves += 1  # odd: readers in other threads wait
        try:
            decision = line if isinstance(line, Decision) else decode_decision(value)
            if decision.rules > RULES:
                raise MadeByNewerVersion("rules", decision.rules, RULES)
            if decision.genesis is not None:
                state.genesis = decision.genesis
            apply(state, decision, digest)
        except LogDamaged:
            raise
        except UNREADABLE as error:
            raise LogDamaged(f"decision {number} cannot be applied: {error}") from error
        finally:
            state.moves += 1
        self.is_confirmed = True
        return decision

    def _check_repeat(self, line: Decision | DecisionHeader, digest: str) -> None:
        number, before = line.partition_sequence, self._repeat
        follows = before is None or number != before[0] + 1 or line.previous == before[1]
        self._repeat = number, digest
        self.is_confirmed = number == self.state.sequence
        if not follows or (self.is_confirmed and digest != self.state.head):
            raise OtherLog(f"decision {number} is another one than the state includes")
