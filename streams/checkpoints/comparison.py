"""A log compared with the checkpoints that somebody kept of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from accountant.errors import BudgetError
from accountant.partition import hash_of
from accountant.records import DECODE_ERRORS, decode_decision
from accountant.records.receipts import Receipt
from accountant.times import iso
from streams.checkpoints.keys import Verifier
from streams.checkpoints.note import Checkpoint, NoteInvalid, opened

_UNREADABLE: Final = (*DECODE_ERRORS, BudgetError, ValueError)


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """What checkpoints say of one partition's log.

    Attributes:
        agree: how many name a decision that the log has.
        last: number of the last of those decisions, None without one.
        not_seen: how many name a decision before the first one that was looked at.
        wrong: what each of the others shows, in words.
    """

    partition: int
    agree: int
    last: int | None
    not_seen: int
    wrong: tuple[str, ...]


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a receipt.

    Attributes:
        there: the log has that decision. None: it is in an archive that was not given.
        under: number of the first decision, of that one and those after it, that was signed.
    """

    receipt: Receipt
    there: bool | None
    under: int | None = None


class Evidence:
    """Checkpoints that known keys have signed, receipts, and what a log is looked at for.

    Args:
        notes: each with its file.
        verifiers: the keys that are believed, from outside the ledger.
    """

    def __init__(
        self,
        notes: Iterable[tuple[Path, bytes]] = (),
        verifiers: Iterable[Verifier] = (),
        receipts: Iterable[Receipt] = (),
    ) -> None:
        known = list(verifiers)
        self._receipts = list(receipts)
        self._kept: dict[int, list[Checkpoint]] = defaultdict(list)
        self._found: dict[int, dict[int, str]] = {}
        self._ends: dict[int, int] = {}
        self._ledger: str | None = None
        self.unread: list[str] = []
        for file, note in notes:
            try:
                checkpoint = opened(note, known)
            except NoteInvalid as error:
                self.unread.append(f"{file.name}: {error}")
            else:
                self._kept[checkpoint.partition].append(checkpoint)

    def numbers(self, partition: int) -> set[int]:
        """Return the numbers of the decisions whose hashes are wanted."""
        asked = {each.partition_sequence for each in self._receipts if each.partition == partition}
        return asked | {checkpoint.sequence for checkpoint in self._kept[partition]}

    def begin(self, partition: int, first: bytes) -> None:
        """Take the first decision of a partition: by it a ledger is known."""
        if partition and self._ledger is not None:
            return
        try:
            genesis = decode_decision(first).genesis
        except _UNREADABLE:
            return  # the audit tells
        if genesis is not None:
            self._ledger = hash_of(first) if genesis.ledger is msgspec.UNSET else genesis.ledger

    def take(self, partition: int, found: Mapping[int, str | None], end: int) -> None:
        """Take what a partition's log has.

        Args:
            found: hashes by the numbers that it has.
            end: number of its last decision.
        """
        self._found[partition] = {n: digest for n, digest in found.items() if digest is not None}
        self._ends[partition] = end

    @property
    def of_this_ledger(self) -> bool:
        """Whether any checkpoint is of the ledger that was looked at."""
        return any(self._ours(partition) for partition in self._ends)

    def receipts(self, begins: Mapping[int, int]) -> list[Found]:
        """Return what became of each receipt.

        Args:
            begins: as of `compared`.
        """
        return [self._receipt(each, begins.get(each.partition, 0)) for each in self._receipts]

    def _receipt(self, receipt: Receipt, begin: int) -> Found:
        number, partition = receipt.partition_sequence, receipt.partition
        found = self._found.get(partition, {})
        if found.get(number) != receipt.hash:
            unseen = 0 < number < begin and number not in found
            return Found(receipt=receipt, there=None if unseen else False)
        later = (each for each in self._ours(partition) if each.sequence >= number)
        agreeing = (each.sequence for each in later if found.get(each.sequence) == each.head)
        return Found(receipt=receipt, there=True, under=min(agreeing, default=None))

    def _ours(self, partition: int) -> list[Checkpoint]:
        found = (each for each in self._kept[partition] if each.ledger == self._ledger)
        return sorted(found, key=lambda each: (each.branch, each.sequence, each.at))

    def compared(self, begins: Mapping[int, int]) -> list[Compared]:
        """Return what the checkpoints say of each partition that was looked at.

        Args:
            begins: number of the first decision that was looked at, of partitions whose beginning
                is in an archive that was not given.
        """
        return [self._compared(each, begins.get(each, 0)) for each in sorted(self._ends)]

    def _compared(self, partition: int, begin: int) -> Compared:
        found, end = self._found[partition], self._ends[partition]
        agree, not_seen, last = 0, 0, None
        wrong: list[str] = []
        places: dict[tuple[int, int], Checkpoint] = {}
        for each in self._ours(partition):
            other = places.setdefault((each.branch, each.sequence), each)
            if other.head != each.head:
                wrong.append(
                    f"fork: decision {each.sequence} of branch {each.branch} was signed twice, as "
                    f"{other.head} at {iso(other.at)} and as {each.head} at {iso(each.at)}"
                )
            if 0 < each.sequence < begin:
                not_seen += 1
            elif each.sequence > end:
                wrong.append(
                    f"truncated: the log ends at decision {end}, but decision {each.sequence} was "
                    f"signed at {iso(each.at)}: its end was cut off, or an older copy put back"
                )
            elif found.get(each.sequence) == each.head:
                agree, last = agree + 1, max(each.sequence, -1 if last is None else last)
            else:
                since = "from its beginning" if last is None else f"after decision {last}"
                wrong.append(
                    f"differs: decision {each.sequence} is {found.get(each.sequence)}, but "
                    f"{each.head} was signed at {iso(each.at)}: the log was changed or decided "
                    f"anew {since}"
                )
        return Compared(
            partition=partition, agree=agree, last=last, not_seen=not_seen, wrong=tuple(wrong)
        )
