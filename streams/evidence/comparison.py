"""Compares a log with stored checkpoints and receipts."""

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
from streams.evidence.key_changes import TrustedKey, trusted_keys
from streams.evidence.keys import Verifier
from streams.evidence.rollbacks import is_signed
from streams.evidence.signed_checkpoint import (
    Checkpoint,
    CheckpointInvalid,
    parse_unverified,
    verify,
)

_FORK: Final = "fork: "
_MISSING: Final = "missing: the partition has no log, but checkpoints of it were signed"
_UNREADABLE: Final = (*DECODE_ERRORS, BudgetError, ValueError)


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """The result of comparing one partition's log with its checkpoints.

    Attributes:
        agree: the number of checkpoints whose decision the log has.
        last: the number of the last such decision, None without any.
        after_flaw: the number of those that are not counted, because the log disagrees with itself
            there or before: they say nothing of the decisions before the flaw.
        not_seen: the number of checkpoints before the first decision that was read.
        given_up: the number of checkpoints whose decision an accepted rollback gave up.
        wrong: the problem that each other checkpoint shows, in words.
    """

    partition: int
    agree: int
    last: int | None
    not_seen: int
    given_up: int
    wrong: tuple[str, ...]
    after_flaw: int = 0

    @property
    def forks(self) -> list[str]:
        """What shows that two logs of this ledger were signed."""
        return [each for each in self.wrong if each.startswith(_FORK)]


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The result of looking up a receipt.

    Attributes:
        there: whether the log has that decision; None if it is in an archive that is not at hand.
        under: the number of the first signed decision from the receipt's on.
    """

    receipt: Receipt
    there: bool | None
    under: int | None = None


class OtherLedger(msgspec.Struct, frozen=True, kw_only=True):
    """Another ledger in the same sink, whose checkpoints a trusted key has signed.

    Attributes:
        checkpoints: their number.
        last: the number of the last decision among them, in any partition.
        at, key: when that was signed, and by which key.
    """

    ledger: str
    checkpoints: int
    last: int
    at: str
    key: str


class _StoredCheckpoint(NamedTuple):
    name: str
    signed_text: bytes
    checkpoint: Checkpoint  # unverified


class Evidence:
    """Collects checkpoints and receipts, and the log's hashes to compare them with.

    Args:
        checkpoints: signed checkpoints, each with its name in the sink.
        verifiers: the trusted keys, from outside the ledger.

    Attributes:
        answers_heads: signed heads of answers beside the checkpoints, each with its name.
    """

    def __init__(
        self,
        checkpoints: Iterable[tuple[str, bytes]] = (),
        verifiers: Iterable[Verifier] = (),
        receipts: Iterable[Receipt] = (),
    ) -> None:
        self._known = list(verifiers)
        self._receipts = list(receipts)
        self._stored: dict[int, list[_StoredCheckpoint]] = defaultdict(list)
        self._ours: dict[int, list[Checkpoint]] = {}
        self._found: dict[int, dict[int, str]] = {}
        self._ends: dict[int, int] = {}
        self._ledger: str | None = None
        self._keys: dict[str, Verifier] = {each.text: each for each in self._known}
        self.unread: list[str] = []
        self.answers_heads: list[tuple[str, bytes]] = []
        for name, signed_text in checkpoints:
            try:
                checkpoint = parse_unverified(signed_text)
            except CheckpointInvalid as error:
                self.unread.append(f"{name}: {error}")
            else:
                self._stored[checkpoint.partition].append(
                    _StoredCheckpoint(name, signed_text, checkpoint)
                )

    def numbers(self, partition: int) -> set[int]:
        """Return the numbers of the decisions whose hashes are needed."""
        asked = {each.partition_sequence for each in self._receipts if each.partition == partition}
        return asked | {stored.checkpoint.sequence for stored in self._stored[partition]}

    def begin(self, partition: int, first: bytes) -> None:
        """Read the ledger's id from the first decision of a partition."""
        if partition and self._ledger is not None:
            return
        try:
            self._ledger = ledger_of(first) or self._ledger
        except _UNREADABLE:
            return  # the audit reports it

    def take(self, partition: int, found: Mapping[int, str | None], end: int) -> None:
        """Add the hashes of a partition's log.

        Args:
            found: hashes by decision number.
            end: the number of its last decision.
        """
        self._found[partition] = {n: digest for n, digest in found.items() if digest is not None}
        self._ends[partition] = end

    @property
    def trusted(self) -> list[Verifier]:
        """The keys that were brought, and those that the log names after them; of `compared`."""
        return list(self._keys.values())

    @property
    def of_this_ledger(self) -> bool:
        """Whether any checkpoint belongs to this ledger. Call `compared` first."""
        return any(self._ours.values())

    def others(self) -> list[OtherLedger]:
        """Return other ledgers whose checkpoints trusted keys have signed. Call `compared` first.

        Only these reveal a ledger that was replaced by another one of the same name.
        """
        found = defaultdict[str, list[tuple[Checkpoint, Verifier]]](list)
        for stored in chain.from_iterable(self._stored.values()):
            if stored.checkpoint.ledger != self._ledger:
                with suppress(CheckpointInvalid):
                    signature = verify(stored.signed_text, self._keys.values())
                    found[stored.checkpoint.ledger].append(signature)
        return [_other(ledger, found[ledger]) for ledger in sorted(found)]

    def receipts(self, reports: Mapping[int, AuditReport]) -> list[Found]:
        """Return the result for each receipt. Call `compared` first.

        Args:
            reports: as for `compared`.
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
        """Return the result of each partition that was read.

        Args:
            reports: the audit of each partition.
        """
        compared = [self._compare(each, reports[each]) for each in sorted(self._ends)]
        return compared + [
            Compared(partition=each, agree=0, last=None, not_seen=0, given_up=0, wrong=(_MISSING,))
            for each in sorted(self._stored.keys() - self._ends.keys())
            if any(stored.checkpoint.ledger == self._ledger for stored in self._stored[each])
        ]

    def _compare(self, partition: int, report: AuditReport) -> Compared:
        found, begin = self._found[partition], report.sealed or 0
        agreeing, not_seen, after_flaw = list[Checkpoint](), 0, 0
        flaw = _flaw_of(report)
        changes = report.key_changes
        keys, wrong = trusted_keys(self._ledger or "", partition, self._known, changes)
        self._keys |= {each.verifier.text: each.verifier for each in keys}
        accepted = self._check_rollbacks(partition, report, keys, wrong)
        # Given-up checkpoints need no key: it may have been introduced in the branch that was
        # given up.
        stored_checkpoints = self._stored_of_ledger(partition)
        compared = [
            stored
            for stored in stored_checkpoints
            if not _is_given_up(stored.checkpoint, accepted)
            or (
                found.get(stored.checkpoint.sequence) == stored.checkpoint.head
                and _is_trusted(stored, keys)
            )
        ]
        given_up = len(stored_checkpoints) - len(compared)
        self._ours[partition] = self._check_signatures(compared, keys, wrong)
        places: dict[tuple[int, int], Checkpoint] = {}
        differing = list[tuple[int, Checkpoint, int | None]]()
        for each in self._ours[partition]:
            other = places.setdefault((each.branch, each.sequence), each)
            last = agreeing[-1].sequence if agreeing else None
            if other.head != each.head:
                wrong.append(
                    f"{_FORK}decision {each.sequence} of branch {each.branch} was signed twice, as "
                    f"{other.head} at {iso(other.at)} and as {each.head} at {iso(each.at)}"
                )
            if 0 < each.sequence < begin or _ended_in_archive(each, report):
                not_seen += 1
            elif each.branch > report.branch or each.sequence > self._ends[partition]:
                wrong.append(self._truncation(each, partition, report))
            elif found.get(each.sequence) == each.head:
                if flaw is None or each.sequence < flaw:
                    agreeing.append(each)
                else:
                    after_flaw += 1
            elif (ended := _rollback_that_ended(each, accepted)) and _is_foreign(each, report):
                wrong.append(
                    f"lost: decision {each.sequence} of branch {each.branch} was signed at "
                    f"{iso(each.at)}, and the log was never of that branch: its rollback to branch "
                    f"{ended.branch} gives up the decisions from {ended.first} on alone"
                )
            else:
                differing.append((len(wrong), each, last))
                wrong.append("")  # said below, once all that agree are known
        for place, each, last in differing:
            wrong[place] = _difference(each, last, found.get(each.sequence), agreeing)
        return Compared(
            partition=partition,
            agree=len(agreeing),
            last=max((each.sequence for each in agreeing), default=None),
            after_flaw=after_flaw,
            not_seen=not_seen,
            given_up=given_up,
            wrong=tuple(wrong),
        )

    def _stored_of_ledger(self, partition: int) -> list[_StoredCheckpoint]:
        return [each for each in self._stored[partition] if each.checkpoint.ledger == self._ledger]

    def _check_signatures(
        self,
        stored_checkpoints: Iterable[_StoredCheckpoint],
        keys: Sequence[TrustedKey],
        wrong: list[str],
    ) -> list[Checkpoint]:
        """Return the checkpoints with a trusted signature, and add problems of the others."""
        verifiers, checkpoints = [each.verifier for each in keys], list[Checkpoint]()
        for name, signed_text, _ in stored_checkpoints:
            try:
                checkpoint, by = verify(signed_text, verifiers)
            except CheckpointInvalid as error:
                self.unread.append(f"{name}: {error}")
                continue
            position = checkpoint.branch, checkpoint.sequence
            if any(each.verifier.text == by.text and each.at(position) for each in keys):
                checkpoints.append(checkpoint)
            else:
                wrong.append(
                    f"key: decision {checkpoint.sequence} was signed at {iso(checkpoint.at)} by "
                    f"{by.text}, which is not the log's key there"
                )
        return sorted(checkpoints, key=lambda each: (each.branch, each.sequence, each.at))

    def _check_rollbacks(
        self, partition: int, report: AuditReport, keys: Sequence[TrustedKey], wrong: list[str]
    ) -> list[Rollback]:
        """Return the rollbacks with a trusted signature, and add problems of the others."""
        accepted = []
        for each in report.rollbacks:
            position = each.rollback.branch, each.partition_sequence
            by = [key.verifier for key in keys if key.at(position)]
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

    def _truncation(self, each: Checkpoint, partition: int, report: AuditReport) -> str:
        ends = f"the log ends at decision {self._ends[partition]}"
        if each.branch > report.branch:
            ends += f" and has accepted no rollback to branch {each.branch}"
        return (
            f"truncated: {ends}, but decision {each.sequence} was signed at {iso(each.at)}: its "
            "end was cut off, an older copy was restored, or a copy of it went on"
        )


def _flaw_of(report: AuditReport) -> int | None:
    """Return the number of the first decision at which a log disagrees with itself."""
    wrong = report.first_disagreement
    if wrong is None or wrong.row is not None or wrong.what.endswith(".signature"):
        return None
    return None if wrong.what in {"ledger", "head"} else wrong.partition_sequence


def _difference(
    each: Checkpoint, last: int | None, found: str | None, agreeing: Sequence[Checkpoint]
) -> str:
    """Return what a checkpoint shows of which the log has another decision.

    Args:
        last: the number of the last decision before it that agrees.
        found: the hash of the log's own decision.
    """
    later = (e for e in agreeing if e.branch == each.branch and e.sequence >= each.sequence)
    signed = next(later, None)
    if signed is not None:
        return (
            f"{_FORK}decision {each.sequence} is {found}, but {each.head} was signed at "
            f"{iso(each.at)}, and so was decision {signed.sequence} of this log at "
            f"{iso(signed.at)}: two logs of this ledger were signed, as by two processes that "
            "decide on copies of it"
        )
    since = "there or before" if last is None else f"after decision {last}"
    return (
        f"differs: decision {each.sequence} is {found}, but {each.head} was signed at "
        f"{iso(each.at)}: the log was changed, or decided again, {since}"
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
    """Return whether the log has accepted the loss of a checkpoint's decision.

    Args:
        accepted: in the order of the log, so by branch.
    """
    ended = _rollback_that_ended(checkpoint, accepted)
    if ended is None or checkpoint.sequence < ended.first:
        return False
    # A rollback names the end of the newest branch that it gives up. Older branches ended in one
    # of those decisions.
    return checkpoint.branch < ended.branch - 1 or checkpoint.sequence <= ended.last


def _rollback_that_ended(checkpoint: Checkpoint, accepted: Iterable[Rollback]) -> Rollback | None:
    """Return the rollback that ended a checkpoint's branch in the log."""
    return next((each for each in accepted if each.branch > checkpoint.branch), None)


def _is_foreign(checkpoint: Checkpoint, report: AuditReport) -> bool:
    """Return whether a complete log never had a checkpoint's branch."""
    branches = {0, *(each.rollback.branch for each in report.rollbacks)}
    return report.sealed is None and checkpoint.branch not in branches


def _is_trusted(stored: _StoredCheckpoint, keys: Iterable[TrustedKey]) -> bool:
    """Return whether a key that is trusted at a checkpoint's position has signed it."""
    position = stored.checkpoint.branch, stored.checkpoint.sequence
    try:
        verify(stored.signed_text, [each.verifier for each in keys if each.at(position)])
    except CheckpointInvalid:
        return False
    return True


def _ended_in_archive(checkpoint: Checkpoint, report: AuditReport) -> bool:
    later = (each.rollback.branch > checkpoint.branch for each in report.rollbacks)
    return report.sealed is not None and checkpoint.branch < report.branch and not any(later)
