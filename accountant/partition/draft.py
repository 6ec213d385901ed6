"""Uncommitted decisions on top of a partition's committed state, committed or dropped together.

A `Draft` collects the changes of one decision after another. The partition itself changes only in
`absorb`, after the commit of the draft's records. A dropped draft leaves no trace.
"""

from __future__ import annotations

import hashlib
from binascii import hexlify
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import msgspec

from accountant.amounts import Units
from accountant.approvals.pending_table import PendingChanges
from accountant.asks.ask_table import AskChanges
from accountant.checksum import Checksum, crc_of_row, text_of
from accountant.dataset_ledger import DatasetLedger
from accountant.limits.store import LimitChanges, end_limits
from accountant.members.member_table import MemberChanges
from accountant.partition import NO_PREVIOUS, Partition
from accountant.partition.fast_records import Amounts, row
from accountant.partition.ids import (
    RememberedDecision,
    end_of_second_before,
    oldest_tenth,
    second_of,
)
from accountant.partition.partition import counts_of
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
from accountant.records.parts import join
from accountant.records.state_rows import TableName
from accountant.reservations.table import ReservationChanges
from accountant.times import ClockResets, iso

_sha256: Final = hashlib.sha256
_SPARED_MS: Final = 60_000
"""A full table of ids never forgets the ids of the last minute."""

Mark = tuple[int, bytes, int, int, dict[Source, int]]
"""A point that a draft can return to; see `Draft.mark`."""


class TableChanges(Protocol):
    """Changes to a table of the partition that are decided but not committed.

    Attributes:
        count: number of rows, with the changes.
    """

    @property
    def count(self) -> int: ...
    def mark(self) -> None: ...
    def undo(self) -> None: ...
    def rows(self, sums: Checksum) -> tuple[list[tuple[bytes, bytes | None]], int]: ...
    def absorb(self, sums: Checksum) -> None: ...


class Draft:
    """Changes to a partition that are decided but not committed.

    Attributes:
        partition: the committed state; unchanged before `absorb`.
        ledgers: the datasets that changed.
        members, levels, reservations, pending, asks: of all datasets, with the changes.
        sequence, head, decided_at, floor, next, branch, key, resets: as in `Partition`, with the
            changes.
        head_bytes: `head` as bytes, which the next record repeats.
    """

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.sequence = partition.sequence
        self.head_bytes = partition.head.encode()
        self.decided_at = partition.decided_at
        self.floor = partition.floor
        self.next = dict(partition.next)
        self.branch = partition.branch
        self.key = partition.key
        self.ledgers: dict[str, DatasetLedger] = {}
        self.members = MemberChanges(partition.members)
        self.levels = LimitChanges(partition.levels)
        self.reservations = ReservationChanges(partition.reservations)
        self.pending = PendingChanges(partition.pending)
        self.asks = AskChanges(partition.asks)
        self._changes: dict[TableName, TableChanges] = {
            "members": self.members,
            "levels": self.levels,
            "reservations": self.reservations,
            "pending": self.pending,
            "asks": self.asks,
        }
        self.resets = partition.resets
        self._amounts: dict[str, tuple[DatasetLedger, Amounts | None]] = {}
        self._crcs: dict[str, tuple[DatasetLedger, int]] = {}  # of the rows written last
        self._ids: dict[bytes, tuple[int, RememberedDecision]] = {}
        self._opened = 0
        # Lower bound on how many more ids fit.
        self._room = partition.ids.maximum - len(partition.ids)
        self._full = partition.full
        self._undo_ledgers: list[tuple[str, DatasetLedger | None, int]] = []
        self._undo_id: bytes | None = None

    @property
    def head(self) -> str:
        """Hash of the last record, as in `Partition`."""
        return self.head_bytes.decode()

    def ledger(self, dataset: str) -> DatasetLedger | None:
        """Return a dataset's ledger with the changes, None if it was never opened."""
        touched = self.ledgers.get(dataset)
        return self.partition.ledgers.get(dataset) if touched is None else touched

    def every_ledger(self) -> Iterator[DatasetLedger]:
        """Yield the ledgers of all datasets, with the changes."""
        yield from self.ledgers.values()
        for name, ledger in self.partition.ledgers.items():
            if name not in self.ledgers:
                yield ledger

    def put(self, ledger: DatasetLedger, amounts: Amounts | None = None) -> None:
        """Replace a dataset's ledger after a decision.

        Args:
            amounts: the ledger's amounts as the decision's record has them, if it was a grant.
        """
        name = ledger.dataset
        before = self.ledgers.get(name)
        self._undo_ledgers.append((name, before, self._opened))
        if before is None and name not in self.partition.ledgers:
            self._opened += 1
        self.ledgers[name] = ledger
        self._amounts[name] = ledger, amounts

    def find_decision(self, issued: int, key: bytes) -> RememberedDecision | None:
        """Return the decision on an id, None for an unknown id."""
        new = self._ids.get(key)
        return self.partition.ids.get(issued, key) if new is None else new[1]

    def remember(self, issued: int, key: bytes, remembered: RememberedDecision) -> None:
        """Remember an id with its decision."""
        self._ids[key] = (issued, remembered)
        self._undo_id = key
        self._room -= 1

    def make_room_for_id(self) -> bool:
        """Raise the expiry watermark if the id table is full; return whether an id fits now.

        The watermark (`floor`) rises until the oldest tenth of the ids expires, but never into
        the last minute. The result depends only on the remembered ids above the watermark, not on
        how they are spread over drafts: an audit decides the log again with one record a draft,
        and must get the same.
        """
        ids = self.partition.ids
        if self._room > 0 or len(ids) + len(self._ids) < ids.maximum:
            return True
        # To whole seconds, so that a table which stays full is counted once a second.
        spared = end_of_second_before(self.decided_at - _SPARED_MS)
        if self._full == (self.floor, spared):
            return False  # no id was added since, and only a higher watermark forgets ids
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

    def reset_clock(self, at: int, watermark: int) -> None:
        """Set the clock and the expiry watermark back. Forgotten ids stay forgotten.

        Limits that have ended stay over.
        """
        for dataset in self.partition.levels.datasets_with_ends:
            end_limits(self.levels, dataset, self.decided_at, None)
        self.decided_at, self.floor, self._full = at, watermark, None
        self.resets = ClockResets(self.resets.number + 1, at)

    def mark(self) -> Mark:
        """Return what `rewind` needs to undo the next decision, and only that one."""
        self._undo_ledgers.clear()
        self._undo_id = None
        for changes in self._changes.values():
            changes.mark()
        return self.sequence, self.head_bytes, self.decided_at, self.floor, self.next.copy()

    def rewind(self, mark: Mark) -> None:
        """Go back to the last mark, after an error or a decision that cannot be stored."""
        self.sequence, self.head_bytes, self.decided_at, self.floor, self.next = mark
        while self._undo_ledgers:
            name, before, self._opened = self._undo_ledgers.pop()
            if before is None:
                del self.ledgers[name]
            else:
                self.ledgers[name] = before
        for changes in self._changes.values():
            changes.undo()
        if self._undo_id is not None:
            del self._ids[self._undo_id]
        self._undo_id = None
        self._room = 0  # counted above a watermark that may be lower again

    def append(
        self,
        decision: Decision,
        key: bytes | None,
        analyst: str | None = None,
        *,
        charged: Units | None = None,
    ) -> EncodedDecision:
        """Append a decision that is no plain grant as the log's next.

        Args:
            analyst, charged: see `EncodedDecision`.
        """
        return self.append_value(
            encode(decision),
            key,
            decision.outcome,
            decision.reason,
            decision.dataset,
            decision.sequence,
            analyst,
            charged,
            bool(decision.crossed or _crosses(decision)),
            decision,
        )

    def append_parts(
        self,
        decisions: Sequence[Decision],
        key: bytes | None,
        analyst: str | None,
        *,
        charged: Sequence[Units | None],
    ) -> EncodedDecision:
        """Append one decision over several datasets as the log's next.

        Args:
            decisions: the decision as each dataset sees it.
            analyst, charged: see `EncodedDecision`; `charged` by dataset.
        """
        whole = self.append(join(decisions), key)
        whole.crossed = any(part.crossed or _crosses(part) for part in decisions)
        whole.parts = tuple(
            [
                EncodedDecision(
                    self.sequence,
                    part.outcome,
                    part.reason,
                    part.dataset,
                    part.sequence,
                    self.decided_at,
                    analyst,
                    amount,
                    bool(part.crossed or _crosses(part)),
                    encode(part),
                    key,
                    whole.digest,
                    part,
                )
                for part, amount in zip(decisions, charged, strict=True)
            ]
        )
        return whole

    def append_value(
        self,
        value: bytes,
        key: bytes | None,
        outcome: Outcome,
        reason: Reason | None,
        dataset: str | None,
        sequence: int | None,
        analyst: str | None,
        charged: Units | None,
        crossed: bool,
        decision: Decision | None,
    ) -> EncodedDecision:
        """Append a decision's bytes as the log's next; see `EncodedDecision` for the arguments.

        All by position, since keywords take longer and every decision comes here.
        """
        digest = _sha256(value).digest()
        self.sequence = number = self.sequence + 1
        self.head_bytes = b"sha256:" + hexlify(digest)
        return EncodedDecision(  # by position: keywords take five times as long
            number,
            outcome,
            reason,
            dataset,
            sequence,
            self.decided_at,
            analyst,
            charged,
            crossed,
            value,
            key,
            digest,
            decision,
        )

    def rows(self) -> list[tuple[bytes, bytes | None]]:
        """Return the changed rows for `state` as (key, value), the partition's own row last.

        A value of None deletes the row.
        """
        sums = self.partition.full_checksum()
        total, of_tables = sums.total, list[tuple[bytes, bytes | None]]()
        for changes in self._changes.values():
            changed, moved = changes.rows(sums)
            of_tables += changed
            total += moved
        rows = list[tuple[bytes, bytes | None]]()
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
            resets=self.resets.number or msgspec.UNSET,
            reset_at=self.resets.last_to or msgspec.UNSET,
            **counts_of(self._changes),
        )
        own = partition_row_key(genesis.partition), encode(last)
        return [*rows, *of_tables, own]

    def absorb(self) -> None:
        """Move the changes into the partition. Call this after their commit."""
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
        for changes in self._changes.values():
            changes.absorb(state.checksum)
        state.ids.add_all(self._ids)
        state.ids.forget(state.floor)
        state.full = self._full


def _crosses(decision: Decision) -> bool:
    """Return whether a decision has an alert beside those of its dataset's thresholds."""
    crossed = any(each.crossed for each in decision.levels)
    others = decision.reached or decision.shares_cut or decision.pending
    return crossed or bool(others) or decision.outcome.asks_owners


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
