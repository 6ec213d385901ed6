"""One partition's state: what the committed prefix of its log comes down to."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterator, Mapping
from itertools import chain
from typing import Any, Final, Protocol

import msgspec

from accountant.approvals.pending_table import PendingTable
from accountant.asks.ask_table import AskTable
from accountant.checksum import Checksum, crc_of_row, text_of
from accountant.dataset_ledger import DatasetLedger
from accountant.limits.store import LimitTable
from accountant.members.member_table import MemberTable
from accountant.partition.fast_records import row
from accountant.partition.ids import IdTable
from accountant.records import FORMAT, RULES, Genesis, NextOffsets, PartitionRow, Source
from accountant.records.state_rows import TableName
from accountant.reservations.table import ReservationTable
from accountant.times import NO_RESETS

NO_PREVIOUS: Final = "sha256:" + "0" * 64
"""What the first decision of a log names as the one before it."""


class StateTable(Protocol):
    """A table of what datasets have, beside their own rows.

    Attributes:
        count: number of rows.
    """

    @property
    def count(self) -> int: ...
    def rows(self, known: Container[str] = ()) -> Iterator[tuple[bytes, bytes]]: ...


class Counted(Protocol):
    """What has rows."""

    @property
    def count(self) -> int: ...


def counts_of(tables: Mapping[TableName, Counted]) -> dict[str, Any]:
    """Return the counts of tables as a partition's row has them."""
    return {name: table.count or msgspec.UNSET for name, table in tables.items()}


class Partition:
    """The state that a partition's decision log comes down to.

    Attributes:
        genesis: what decision 0 fixed.
        rules: number of the rules of the last decision.
        sequence, head: number and hash (`sha256:...`) of the last decision.
        decided_at, floor: the partition's clock and its expiry watermark, in milliseconds.
        next: for each input, the offset to read next.
        ledgers: by dataset.
        ids: those remembered.
        branch: how many rollbacks the log has accepted.
        key: public half of the key that signs checkpoints, None while the log names none.
        full: when the id table was last found full, the watermark and the last second of which
            ids could expire then.
        members, levels: the members and the limits of its datasets.
        reservations: the open ones of its datasets.
        pending: the requests of its datasets that wait for an owner's approval, or did.
        asks: those of its datasets, open and answered.
        resets: those of the clock.
        checksum: of the rows of datasets, members and limits, as far as those are known.
        moves: raised before changes are taken in and again after it, so it is odd while they
            are; see `Draft`.
    """

    __slots__ = (
        "asks",
        "branch",
        "checksum",
        "decided_at",
        "floor",
        "full",
        "genesis",
        "head",
        "ids",
        "key",
        "ledgers",
        "levels",
        "members",
        "moves",
        "next",
        "pending",
        "reservations",
        "resets",
        "rules",
        "sequence",
    )

    def __init__(self, genesis: Genesis, *, most_ids: int | None = None) -> None:
        self.genesis = genesis
        self.rules = RULES
        self.sequence = -1
        self.head = NO_PREVIOUS
        self.decided_at = 0
        self.floor = 0
        self.next: dict[Source, int] = {"requests": 0, "admin": 0}
        self.ledgers: dict[str, DatasetLedger] = {}
        self.ids = IdTable() if most_ids is None else IdTable(most_ids)
        self.branch = 0
        self.key: str | None = None
        self.full: tuple[int, int] | None = None
        self.members = MemberTable()
        self.levels = LimitTable()
        self.reservations = ReservationTable()
        self.pending = PendingTable()
        self.asks = AskTable()
        self.resets = NO_RESETS
        self.checksum = Checksum()
        self.moves = 0

    @property
    def tables(self) -> dict[TableName, StateTable]:
        """The tables of its datasets by name, in the order of their rows."""
        return {
            "members": self.members,
            "levels": self.levels,
            "reservations": self.reservations,
            "pending": self.pending,
            "asks": self.asks,
        }

    def full_checksum(self) -> Checksum:
        """Return the checksum of all rows, after adding the rows that were never written."""
        checksum = self.checksum
        tables = self.tables.values()
        if len(checksum) < len(self.ledgers) + sum(table.count for table in tables):
            for name, ledger in self.ledgers.items():
                if name not in checksum:
                    checksum.put(name, crc_of_row(row(ledger, None)))
            for key, value in chain.from_iterable(table.rows(checksum) for table in tables):
                checksum.put(key.decode(), crc_of_row(value))
        return checksum

    def row(self) -> PartitionRow:
        """Return the partition's row for `state`."""
        return PartitionRow(
            version=FORMAT,
            rules=self.rules,
            genesis=self.genesis,
            partition_sequence=self.sequence,
            head=self.head,
            decided_at=self.decided_at,
            floor=self.floor,
            next=NextOffsets(**self.next),
            datasets=len(self.ledgers),
            checksum=text_of(self.full_checksum().total, self.resets),
            branch=self.branch or msgspec.UNSET,
            key=self.key or msgspec.UNSET,
            resets=self.resets.number or msgspec.UNSET,
            reset_at=self.resets.last_to or msgspec.UNSET,
            **counts_of(self.tables),
        )


def hash_of(value: bytes) -> str:
    """Return the hash of a decision's bytes as the next decision names it."""
    return f"sha256:{hashlib.sha256(value).hexdigest()}"
