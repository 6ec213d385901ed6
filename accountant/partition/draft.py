"""Decisions on top of a partition's committed state, taken one by one, committed or dropped as one.

A `Draft` decides input after input and collects the changes; the partition itself changes only
by `absorb`, once the draft's records are committed. A draft that is dropped leaves no trace.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Final

import msgspec

from accountant.amounts import Units
from accountant.checksum import crc_of_row, text_of
from accountant.ledger import Ledger
from accountant.limits.store import LimitChanges
from accountant.partition import NO_PREVIOUS, Partition
from accountant.partition.fast_records import Amounts, row
from accountant.partition.ids import (
    RememberedDecision,
    end_of_second_before,
    oldest_tenth,
    second_of,
)
from accountant.partition.member_table import MemberChanges
from accountant.records import (
    FORMAT,
    RULES,
    Decision,
    Genesis,
    NextOffsets,
    PartitionRow,
    Source,
    encode,
    partition_row_key,
)
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.outcomes import Outcome, Reason
from accountant.times import ClockResets, iso

_SPARED_MS: Final = 60_000
"""A full table of ids never forgets those of the last minute."""

Mark = tuple[int, str, int, int, dict[Source, int]]
"""Where a draft stood; see `Draft.mark`."""


class Draft:
    """Changes to a partition that are decided but not committed.

    Attributes:
        partition: what it starts from; never changed before `absorb`.
        ledgers: the datasets touched, as they are now.
        members, levels: of all datasets, as they are now.
        sequence, head, decided_at, floor, next, branch, key, resets: as in `Partition`, as they
            are now.
    """

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.sequence = partition.sequence
        self.head = partition.head
        self.decided_at = partition.decided_at
        self.floor = partition.floor
        self.next = dict(partition.next)
        self.branch = partition.branch
        self.key = partition.key
        self.ledgers: dict[str, Ledger] = {}
        self.members = MemberChanges(partition.members)
        self.levels = LimitChanges(partition.levels)
        self.resets = partition.resets
        self._amounts: dict[str, tuple[Ledger, Amounts | None]] = {}
        self._crcs: dict[str, tuple[Ledger, int]] = {}  # of the rows written last
        self._ids: dict[str, tuple[int, RememberedDecision]] = {}
        self._opened = 0
        # Lower bound on how many more ids fit.
        self._room = partition.ids.maximum - len(partition.ids)
        self._full = partition.full
        self._undo_ledger: tuple[str, Ledger | None, int] | None = None
        self._undo_id: str | None = None

    def ledger(self, dataset: str) -> Ledger | None:
        """Return a dataset's ledger as it is now, None if it was never opened."""
        touched = self.ledgers.get(dataset)
        return self.partition.ledgers.get(dataset) if touched is None else touched

    def put(self, ledger: Ledger, amounts: Amounts | None = None) -> None:
        """Replace a dataset's ledger by what a decision has left of it.

        Args:
            amounts: of that ledger, if its record was written with them.
        """
        name = ledger.dataset
        before = self.ledgers.get(name)
        self._undo_ledger = name, before, self._opened
        if before is None and name not in self.partition.ledgers:
            self._opened += 1
        self.ledgers[name] = ledger
        self._amounts[name] = ledger, amounts

    def remembered(self, issued: int, key: str) -> RememberedDecision | None:
        """Return what is remembered of an id."""
        new = self._ids.get(key)
        return self.partition.ids.get(issued, key) if new is None else new[1]

    def remember(self, issued: int, key: str, remembered: RememberedDecision) -> None:
        """Remember an id from now on."""
        self._ids[key] = (issued, remembered)
        self._undo_id = key
        self._room -= 1

    def make_room_for_id(self) -> bool:
        """Raise the floor if the id table is full; return whether one more id can be remembered.

        The floor rises to the time of issue of the oldest tenth, but leaves the last minute.
        The answer depends on which ids above the floor are remembered, not on how they are
        spread over drafts: deciding a log again, one record a draft, must give the same.
        """
        ids = self.partition.ids
        if self._room > 0 or len(ids) + len(self._ids) < ids.maximum:
            return True
        # To whole seconds, so that a table which stays full is counted once a second.
        spared = end_of_second_before(self.decided_at - _SPARED_MS)
        if self._full == (self.floor, spared):
            return False  # nothing was added since, and only a higher floor forgets
        counts = self._count_ids()
        if counts.total() >= ids.maximum:
            raised = max(self.floor, min(oldest_tenth(counts), spared))
            if raised == self.floor:
                self._full = self.floor, spared
                return False
            self.floor = raised
            counts = self._count_ids()
        self._room = ids.maximum - counts.total()
        return self._room > 0

    def _count_ids(self) -> Counter[int]:
        counts = self.partition.ids.count_by_second(self.floor)
        counts.update(second_of(issued) for issued, _ in self._ids.values() if issued > self.floor)
        return counts

    def set_back(self, at: int, floor: int) -> None:
        """Set clock and floor back; what is at or below the floor until now stays forgotten."""
        self.decided_at, self.floor, self._full = at, floor, None
        self.resets = ClockResets(self.resets.number + 1, at)

    def mark(self) -> Mark:
        """Return what `rewind` needs to undo the next decision, and only that one."""
        self._undo_ledger = self._undo_id = None
        self.members.mark()
        self.levels.mark()
        return self.sequence, self.head, self.decided_at, self.floor, self.next.copy()

    def rewind(self, mark: Mark) -> None:
        """Go back to the last mark, after an error or a decision that cannot be stored."""
        self.sequence, self.head, self.decided_at, self.floor, self.next = mark
        if self._undo_ledger is not None:
            name, before, self._opened = self._undo_ledger
            if before is None:
                del self.ledgers[name]
            else:
                self.ledgers[name] = before
        self.members.undo()
        self.levels.undo()
        if self._undo_id is not None:
            del self._ids[self._undo_id]
        self._undo_ledger = self._undo_id = None
        self._room = 0  # it may have been counted above a floor that is lower again

    def append(
        self, decision: Decision, key: bytes | None, analyst: str | None = None
    ) -> EncodedDecision:
        """Take a decision that grants nothing as the next of the log and return its bytes.

        Args:
            analyst: see `EncodedDecision`.
        """
        return self.append_value(
            encode(decision),
            key,
            outcome=decision.outcome,
            reason=decision.reason,
            dataset=decision.dataset,
            sequence=decision.sequence,
            analyst=analyst,
            crossed=bool(decision.crossed),
            made=decision,
        )

    def append_value(
        self,
        value: bytes,
        key: bytes | None,
        *,
        outcome: Outcome,
        dataset: str | None,
        sequence: int | None,
        analyst: str | None,
        crossed: bool,
        reason: Reason | None = None,
        charged: Units | None = None,
        made: Decision | None = None,
    ) -> EncodedDecision:
        """Take a decision's bytes as the next of the log; see `EncodedDecision` for the rest."""
        digest = hashlib.sha256(value).digest()
        self.sequence += 1
        self.head = f"sha256:{digest.hex()}"
        return EncodedDecision(  # by position: keywords take five times as long
            self.sequence,
            outcome,
            reason,
            dataset,
            sequence,
            self.decided_at,
            value,
            analyst,
            charged,
            crossed,
            key,
            digest,
            made,
        )

    def rows(self) -> list[tuple[bytes, bytes | None]]:
        """Return the rows for `state`, as (key, value): what was touched, the partition's own last.

        A value of None deletes.
        """
        sums = self.partition.summed()
        members, moved = self.members.rows(sums)
        levels, moved_too = self.levels.rows(sums)
        total, rows = sums.total + moved + moved_too, list[tuple[bytes, bytes | None]]()
        for name, ledger in self.ledgers.items():
            written, amounts = self._amounts[name]
            # After a `rewind` the amounts are those of a ledger that was undone.
            value = row(ledger, amounts if written is ledger else None)
            crc = crc_of_row(value)
            total += crc - sums.of(name)
            self._crcs[name] = ledger, crc
            rows.append((name.encode(), value))
        genesis = self.partition.genesis
        last = PartitionRow(
            version=FORMAT,
            rules=RULES,
            genesis=genesis,
            partition_sequence=self.sequence,
            head=self.head,
            decided_at=self.decided_at,
            floor=self.floor,
            next=NextOffsets(**self.next),
            datasets=len(self.partition.ledgers) + self._opened,
            checksum=text_of(total, self.resets),
            branch=self.branch or msgspec.UNSET,
            key=self.key or msgspec.UNSET,
            members=self.members.count or msgspec.UNSET,
            levels=self.levels.count or msgspec.UNSET,
            resets=self.resets.number or msgspec.UNSET,
            reset_at=self.resets.last_to or msgspec.UNSET,
        )
        return [*rows, *members, *levels, (partition_row_key(genesis.partition), encode(last))]

    def absorb(self) -> None:
        """Make the changes the partition's own. Call it once they are committed."""
        state = self.partition
        state.moves += 1
        try:
            self._absorb(state)
        finally:
            state.moves += 1

    def _absorb(self, state: Partition) -> None:
        state.rules = RULES
        state.sequence, state.head = self.sequence, self.head
        state.decided_at, state.floor = self.decided_at, self.floor
        state.next, state.branch, state.key = self.next, self.branch, self.key
        state.resets = self.resets
        state.ledgers.update(self.ledgers)
        for name, ledger in self.ledgers.items():
            written, crc = self._crcs.get(name, (None, 0))
            if written is ledger:
                state.checksum.put(name, crc)
            else:  # nobody asked for its row
                state.checksum.forget(name)
        self.members.absorb(state.checksum)
        self.levels.absorb(state.checksum)
        for key, (issued, remembered) in self._ids.items():
            state.ids.add(issued, key, remembered)
        state.ids.forget(state.floor)
        state.full = self._full


def genesis_decision(genesis: Genesis, at: int) -> EncodedDecision:
    """Return decision 0 of a partition, to be written once, into an empty log."""
    draft = Draft(Partition(genesis))
    draft.decided_at = at
    decision = Decision(
        version=FORMAT,
        partition_sequence=0,
        previous=NO_PREVIOUS,
        decided_at=iso(at),
        floor=iso(0),
        rules=RULES,
        outcome=Outcome.GENESIS,
        genesis=genesis,
    )
    return draft.append(decision, None)
