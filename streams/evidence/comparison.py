"""A log compared with the checkpoints that somebody kept of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Final, NamedTuple

import msgspec

from accountant.errors import BudgetError
from accountant.records import DECODE_ERRORS
from accountant.records.operator_records import Rollback
from accountant.records.receipts import Receipt
from accountant.replay.audit import AuditReport
from accountant.times import iso
from accountant.views.heads import ledger_of
from streams.evidence.key_changes import Believed, believed_keys
from streams.evidence.keys import Verifier
from streams.evidence.note import Checkpoint, NoteInvalid, signed_by, unverified
from streams.evidence.rollbacks import is_signed

_MISSING: Final = "missing: it has no log, but checkpoints of it were signed"
_UNREADABLE: Final = (*DECODE_ERRORS, BudgetError, ValueError)


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """What checkpoints say of one partition's log.

    Attributes:
        agree: how many name a decision that the log has.
        last: number of the last of those decisions, None without one.
        not_seen: how many name a decision before the first one that was looked at.
        given_up: how many name a decision that an accepted rollback has given up.
        wrong: what each of the others shows, in words.
    """

    partition: int
    agree: int
    last: int | None
    not_seen: int
    given_up: int
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


class OtherLedger(msgspec.Struct, frozen=True, kw_only=True):
    """Another ledger of which the place holds checkpoints that a believed key has signed.

    Attributes:
        checkpoints: how many.
        last: number of the last decision that they name, in any partition.
        at, key: when that was signed, and by which key.
    """

    ledger: str
    checkpoints: int
    last: int
    at: str
    key: str


class _Note(NamedTuple):
    name: str
    note: bytes
    checkpoint: Checkpoint  # as it says


class Evidence:
    """Checkpoints that known keys have signed, receipts, and what a log is looked at for.

    Args:
        notes: each with the name that tells it apart where it is kept.
        verifiers: the keys that are believed, from outside the ledger.
    """

    def __init__(
        self,
        notes: Iterable[tuple[str, bytes]] = (),
        verifiers: Iterable[Verifier] = (),
        receipts: Iterable[Receipt] = (),
    ) -> None:
        self._known = list(verifiers)
        self._receipts = list(receipts)
        self._kept: dict[int, list[_Note]] = defaultdict(list)
        self._ours: dict[int, list[Checkpoint]] = {}
        self._found: dict[int, dict[int, str]] = {}
        self._ends: dict[int, int] = {}
        self._ledger: str | None = None
        self._keys: dict[str, Verifier] = {each.text: each for each in self._known}
        self.unread: list[str] = []
        for name, note in notes:
            try:
                checkpoint = unverified(note)
            except NoteInvalid as error:
                self.unread.append(f"{name}: {error}")
            else:
                self._kept[checkpoint.partition].append(_Note(name, note, checkpoint))

    def numbers(self, partition: int) -> set[int]:
        """Return the numbers of the decisions whose hashes are wanted."""
        asked = {each.partition_sequence for each in self._receipts if each.partition == partition}
        return asked | {note.checkpoint.sequence for note in self._kept[partition]}

    def begin(self, partition: int, first: bytes) -> None:
        """Take the first decision of a partition: by it a ledger is known."""
        if partition and self._ledger is not None:
            return
        try:
            self._ledger = ledger_of(first) or self._ledger
        except _UNREADABLE:
            return  # the audit tells

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
        """Whether any checkpoint is of the ledger that was looked at; after `compared`."""
        return any(self._ours.values())

    def others(self) -> list[OtherLedger]:
        """Return other ledgers of which believed keys have signed checkpoints; after `compared`.

        A ledger that was replaced by one of the same name is only known by them.
        """
        found = defaultdict[str, list[tuple[Checkpoint, Verifier]]](list)
        for note in chain.from_iterable(self._kept.values()):
            if note.checkpoint.ledger != self._ledger:
                with suppress(NoteInvalid):
                    signature = signed_by(note.note, self._keys.values())
                    found[note.checkpoint.ledger].append(signature)
        return [_other(ledger, found[ledger]) for ledger in sorted(found)]

    def receipts(self, reports: Mapping[int, AuditReport]) -> list[Found]:
        """Return what became of each receipt; after `compared`.

        Args:
            reports: as of `compared`.
        """
        begins = {partition: report.sealed or 0 for partition, report in reports.items()}
        return [self._receipt(each, begins.get(each.partition, 0)) for each in self._receipts]

    def _receipt(self, receipt: Receipt, begin: int) -> Found:
        number, partition = receipt.partition_sequence, receipt.partition
        found = self._found.get(partition, {})
        if found.get(number) != receipt.hash:
            unseen = 0 < number < begin and number not in found
            return Found(receipt=receipt, there=None if unseen else False)
        later = (each for each in self._ours.get(partition, ()) if each.sequence >= number)
        agreeing = (each.sequence for each in later if found.get(each.sequence) == each.head)
        return Found(receipt=receipt, there=True, under=min(agreeing, default=None))

    def compared(self, reports: Mapping[int, AuditReport]) -> list[Compared]:
        """Return what the checkpoints say of each partition that was looked at.

        Args:
            reports: of the audit of each partition.
        """
        compared = [self._compared(each, reports[each]) for each in sorted(self._ends)]
        return compared + [
            Compared(partition=each, agree=0, last=None, not_seen=0, given_up=0, wrong=(_MISSING,))
            for each in sorted(self._kept.keys() - self._ends.keys())
            if any(note.checkpoint.ledger == self._ledger for note in self._kept[each])
        ]

    def _compared(self, partition: int, report: AuditReport) -> Compared:
        found, begin = self._found[partition], report.sealed or 0
        agree, not_seen, last = 0, 0, None
        changes = report.key_changes
        keys, wrong = believed_keys(self._ledger or "", partition, self._known, changes)
        self._keys |= {each.verifier.text: each.verifier for each in keys}
        accepted = self._accepted(partition, report, keys, wrong)
        # Those need no key: one that was changed in a branch that was given up is not known.
        notes = self._notes_of_ledger(partition)
        resume = [
            note
            for note in notes
            if not _is_given_up(note.checkpoint, accepted)
            or (
                found.get(note.checkpoint.sequence) == note.checkpoint.head
                and _is_believed(note, keys)
            )
        ]
        given_up = len(notes) - len(resume)
        self._ours[partition] = self._signed(resume, keys, wrong)
        places: dict[tuple[int, int], Checkpoint] = {}
        for each in self._ours[partition]:
            other = places.setdefault((each.branch, each.sequence), each)
            if other.head != each.head:
                wrong.append(
                    f"fork: decision {each.sequence} of branch {each.branch} was signed twice, as "
                    f"{other.head} at {iso(other.at)} and as {each.head} at {iso(each.at)}"
                )
            if 0 < each.sequence < begin or _ended_in_archive(each, report):
                not_seen += 1
            elif each.branch > report.branch or each.sequence > self._ends[partition]:
                wrong.append(self._cut_off(each, partition, report))
            elif found.get(each.sequence) == each.head:
                agree, last = agree + 1, max(each.sequence, -1 if last is None else last)
            elif (ended := _ended(each, accepted)) and _is_foreign(each, report):
                wrong.append(
                    f"lost: decision {each.sequence} of branch {each.branch} was signed at "
                    f"{iso(each.at)}, and the log was never of that branch: its rollback to branch "
                    f"{ended.branch} gives up the decisions from {ended.first} on alone"
                )
            else:
                since = "from its beginning" if last is None else f"after decision {last}"
                wrong.append(
                    f"differs: decision {each.sequence} is {found.get(each.sequence)}, but "
                    f"{each.head} was signed at {iso(each.at)}: the log was changed or decided "
                    f"anew {since}"
                )
        return Compared(
            partition=partition,
            agree=agree,
            last=last,
            not_seen=not_seen,
            given_up=given_up,
            wrong=tuple(wrong),
        )

    def _notes_of_ledger(self, partition: int) -> list[_Note]:
        return [each for each in self._kept[partition] if each.checkpoint.ledger == self._ledger]

    def _signed(
        self, notes: Iterable[_Note], keys: Sequence[Believed], wrong: list[str]
    ) -> list[Checkpoint]:
        """Return the checkpoints that a key has signed, and add what is wrong."""
        verifiers, checkpoints = [each.verifier for each in keys], list[Checkpoint]()
        for name, note, _ in notes:
            try:
                checkpoint, by = signed_by(note, verifiers)
            except NoteInvalid as error:
                self.unread.append(f"{name}: {error}")
                continue
            place = checkpoint.branch, checkpoint.sequence
            if any(each.verifier.text == by.text and each.at(place) for each in keys):
                checkpoints.append(checkpoint)
            else:
                wrong.append(
                    f"key: decision {checkpoint.sequence} was signed at {iso(checkpoint.at)} by "
                    f"{by.text}, which is not the log's key there"
                )
        return sorted(checkpoints, key=lambda each: (each.branch, each.sequence, each.at))

    def _accepted(
        self, partition: int, report: AuditReport, keys: Sequence[Believed], wrong: list[str]
    ) -> list[Rollback]:
        """Return the rollbacks that a key has signed, and add what is wrong with the others."""
        accepted = []
        for each in report.rollbacks:
            place = each.rollback.branch, each.partition_sequence
            by = [key.verifier for key in keys if key.at(place)]
            if self._ledger and is_signed(self._ledger, partition, each, by):
                accepted.append(each.rollback)
            elif keys:
                wrong.append(
                    f"rollback: none of the known keys has signed decision "
                    f"{each.partition_sequence}, which gives up the decisions from "
                    f"{each.rollback.first} to {each.rollback.last}; it names key "
                    f"{each.rollback.key[:200]}"
                )
        return accepted

    def _cut_off(self, each: Checkpoint, partition: int, report: AuditReport) -> str:
        ends = f"the log ends at decision {self._ends[partition]}"
        if each.branch > report.branch:
            ends += f" and has accepted no rollback to branch {each.branch}"
        return (
            f"truncated: {ends}, but decision {each.sequence} was signed at {iso(each.at)}: its "
            "end was cut off, or an older copy put back"
        )


def _other(ledger: str, signed: list[tuple[Checkpoint, Verifier]]) -> OtherLedger:
    newest, key = max(signed, key=lambda each: (each[0].sequence, each[0].at))
    return OtherLedger(
        ledger=ledger,
        checkpoints=len(signed),
        last=newest.sequence,
        at=iso(newest.at),
        key=key.text,
    )


def _is_given_up(checkpoint: Checkpoint, accepted: Iterable[Rollback]) -> bool:
    """Return whether the log has accepted that it lacks what a checkpoint has seen.

    Args:
        accepted: in the order of the log, so by branch.
    """
    ended = _ended(checkpoint, accepted)
    if ended is None or checkpoint.sequence < ended.first:
        return False
    # A rollback names the end of the newest branch that it gives up. Older branches ended in one
    # of those decisions.
    return checkpoint.branch < ended.branch - 1 or checkpoint.sequence <= ended.last


def _ended(checkpoint: Checkpoint, accepted: Iterable[Rollback]) -> Rollback | None:
    """Return the rollback that ended a checkpoint's branch in the log."""
    return next((each for each in accepted if each.branch > checkpoint.branch), None)


def _is_foreign(checkpoint: Checkpoint, report: AuditReport) -> bool:
    """Return whether a log that was looked at from its beginning never was of that branch."""
    branches = {0, *(each.rollback.branch for each in report.rollbacks)}
    return report.sealed is None and checkpoint.branch not in branches


def _is_believed(note: _Note, keys: Iterable[Believed]) -> bool:
    """Return whether a key that is believed at its place has signed a note."""
    place = note.checkpoint.branch, note.checkpoint.sequence
    try:
        signed_by(note.note, [each.verifier for each in keys if each.at(place)])
    except NoteInvalid:
        return False
    return True


def _ended_in_archive(checkpoint: Checkpoint, report: AuditReport) -> bool:
    later = (each.rollback.branch > checkpoint.branch for each in report.rollbacks)
    return report.sealed is not None and checkpoint.branch < report.branch and not any(later)
