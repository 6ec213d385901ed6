"""Check a partition's decision log from its first record, and decide every request again.

Each record passes two independent checks. `sums` checks that the log's own numbers add up;
deciding again trusts the log's requests alone. An edit that is hashed into a new chain passes the
chain, but must also pass both checks.

No reading of a log can notice a missing tail, or a log forged from its start. An expected head,
from `state` or a witness, shows those too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from accountant.claims import checked
from accountant.claims.price import price
from accountant.claims.text import parse_claim
from accountant.errors import RequestInvalid
from accountant.ledger import Ledger
from accountant.partition import NO_PREVIOUS, Partition, hash_of
from accountant.partition.decide import decide
from accountant.partition.draft import Draft
from accountant.records import (
    FIRST_RULES,
    RULES,
    VERSION,
    Decision,
    Genesis,
    Source,
    decode_decision,
    encode,
)
from accountant.records.inputs import Input
from accountant.records.outcomes import Outcome
from accountant.replay.apply import apply, remember
from accountant.replay.sums import Finding, Findings, check_odometers, check_record, same
from accountant.times import from_iso

_FORGET_EVERY: Final = 4096
_PROGRESS_EVERY: Final = 1000
# These fields must be equal. Odometers may differ by rounding, `fits` must only fit, and of
# `error` only the field must be equal: a library may word the rule.
_DECIDED: Final = (
    "outcome",
    "reason",
    "dataset",
    "generation",
    "sequence",
    "cost",
    "asked",
    "totals",
    "left",
    "crossed",
    "first",
    "policy",
    "budget",
    "decided_at",
    "floor",
)


class Disagreement(msgspec.Struct, frozen=True, kw_only=True):
    """The first record that an audit finds wrong.

    Attributes:
        partition_sequence: the record's place in the log, counted from 0.
        what: the wrong field, or `record` where no single field can be named.
    """

    partition_sequence: int
    what: str
    expected: str
    found: str


class AuditReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an audit, up to the first disagreement.

    Attributes:
        ok: every record is right.
        records: number of right records. `decided_again`: the number of these with a request.
        granted, refused: numbers of requests.
        outcomes, reasons: number of records of each kind.
        sequence, head: number and hash of the last right record, -1 and zeros for none.
    """

    ok: bool
    records: int
    decided_again: int
    granted: int
    refused: int
    outcomes: dict[str, int]
    reasons: dict[str, int]
    datasets: int
    sequence: int
    head: str
    first_disagreement: Disagreement | None = None


class _Wrong(Exception):  # brings the first finding from any depth back to `take`
    def __init__(self, what: str, expected: object, found: object) -> None:
        self.what, self.expected, self.found = what, str(expected), str(found)
        super().__init__(what)


class Auditor:
    """Takes a log record by record, in memory of the size of the ledgers and ids.

    Attributes:
        partition: the state after the records taken so far, None before the first.
        disagreement: the first one; the auditor does not check later records.
    """

    def __init__(self, *, genesis: Genesis | None = None, most_ids: int | None = None) -> None:
        """Expect a log that begins with `genesis`; None accepts any genesis.

        Args:
            most_ids: the most ids that the deciding partition remembered.
        """
        self.partition: Partition | None = None
        self.disagreement: Disagreement | None = None
        self._genesis = genesis
        self._most_ids = most_ids
        self._outcomes: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._decided_again = 0

    @property
    def records(self) -> int:
        """Number of right records."""
        return self._outcomes.total()

    def take(self, value: bytes) -> bool:
        """Check the next record; return False from the first disagreement on."""
        if self.disagreement is not None:
            return False
        try:
            self._take(value)
        except _Wrong as wrong:
            self._disagree(wrong.what, wrong.expected, wrong.found)
        except Exception as error:
            # A forged record may raise anything in the code that reads it: a disagreement, too.
            self._disagree("record", "a decision", f"{type(error).__name__}: {error}")
        return self.disagreement is None

    def report(self, *, expected_head: tuple[int, str] | None = None) -> AuditReport:
        """Return the report of the records taken so far.

        Args:
            expected_head: (sequence, hash) of the log's last record, from another source.
        """
        partition = self.partition
        sequence, head = (
            (-1, NO_PREVIOUS) if partition is None else (partition.sequence, partition.head)
        )
        if self.disagreement is None and partition is None:
            self._disagree("genesis", "decision 0", "an empty log")
        if self.disagreement is None and expected_head not in (None, (sequence, head)):
            assert expected_head is not None
            self._disagree("head", " ".join(map(str, expected_head)), f"{sequence} {head}")
        return AuditReport(
            ok=self.disagreement is None,
            records=self.records,
            decided_again=self._decided_again,
            granted=self._outcomes[Outcome.GRANTED],
            refused=self._outcomes[Outcome.REFUSED],
            outcomes=dict(self._outcomes),
            reasons=dict(self._reasons),
            datasets=0 if partition is None else len(partition.ledgers),
            sequence=sequence,
            head=head,
            first_disagreement=self.disagreement,
        )

    def _disagree(self, what: str, expected: str, found: str) -> None:
        self.disagreement = Disagreement(
            partition_sequence=self.records, what=what, expected=expected, found=found
        )

    def _take(self, value: bytes) -> None:
        decision = decode_decision(value)
        partition = self.partition
        previous = NO_PREVIOUS if partition is None else partition.head
        _insist(same("partition_sequence", self.records, decision.partition_sequence))
        _insist(same("previous", previous, decision.previous))
        _insist(same("version", VERSION, decision.version))
        # Each record is decided again by the rules that it names: one that is only added up could
        # claim to have spent almost nothing. A worker of an older version halts at newer rules, so
        # their number never falls.
        oldest = FIRST_RULES if partition is None else partition.rules
        if not oldest <= decision.rules <= RULES:
            raise _Wrong("rules", f"{oldest} to {RULES}", decision.rules)
        if encode(decision) != value:
            raise _Wrong("record", "the bytes that a decision is written as", "others")
        digest = hash_of(value)
        if partition is None:
            self._begin(decision)
        else:
            self._check(partition, decision)
        partition = self.partition
        assert partition is not None
        apply(partition, decision, digest)
        remember(partition, decision, digest)
        if self.records % _FORGET_EVERY == 0 or len(partition.ids) >= partition.ids.most:
            partition.ids.forget(partition.floor)
        self._outcomes[str(decision.outcome)] += 1
        if decision.reason is not None:
            self._reasons[str(decision.reason)] += 1

    def _begin(self, decision: Decision) -> None:
        genesis = decision.genesis
        if genesis is None or decision.outcome is not Outcome.GENESIS:
            raise _Wrong("genesis", "decision 0", decision.outcome)
        if self._genesis is not None:
            _insist(same("genesis", self._genesis, genesis))
        _insist(same("sequence", None, decision.sequence))
        self.partition = Partition(genesis, most_ids=self._most_ids)

    def _check(self, partition: Partition, decision: Decision) -> None:
        if decision.genesis is not None or decision.outcome is Outcome.GENESIS:
            raise _Wrong("genesis", "one genesis", "another one")
        _insist(check_record(partition, decision))
        if bytes(decision.request):
            _insist(_decide_again(partition, decision))
            self._decided_again += 1


def audit(
    records: Iterable[bytes],
    *,
    expected_head: tuple[int, str] | None = None,
    genesis: Genesis | None = None,
    most_ids: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> AuditReport:
    """Check one partition's log, given as the bytes of its decisions in order.

    Args:
        expected_head: (sequence, `sha256:...`) of the last record, from another source; without
            it the audit cannot notice a missing tail.
        genesis: the genesis that decision 0 must have, None if unknown.
        most_ids: the most ids that the deciding partition remembered.
        progress: called with the number of records after every 1,000 records.
    """
    auditor = Auditor(genesis=genesis, most_ids=most_ids)
    for value in records:
        if not auditor.take(value):
            break
        if progress is not None and auditor.records % _PROGRESS_EVERY == 0:
            progress(auditor.records)
    return auditor.report(expected_head=expected_head)


def _insist(findings: Findings) -> None:
    for finding in findings:
        raise _Wrong(*finding)


def _decide_again(partition: Partition, decision: Decision) -> Findings:
    source = decision.source
    assert source is not None
    at = from_iso(decision.decided_at)
    topic: Source = "admin" if source.topic == "admin" else "requests"
    draft = Draft(partition, rules=decision.rules)
    body = bytes(decision.request)
    ours = decide(draft, Input(topic, source.offset, None, body, at), at).decision
    for field in _DECIDED:
        due, found = getattr(ours, field), getattr(decision, field)
        if due != found:
            yield Finding(field, str(due), str(found))
    yield from same("request", bytes(ours.request), body)
    yield from same(
        "error.field", ours.error and ours.error.field, decision.error and decision.error.field
    )
    ledger = draft.ledgers.get(str(decision.dataset))
    if ledger is None:
        yield from same("odometers", None, decision.odometers)
        yield from same("fits", None, decision.fits)
        return
    yield from check_odometers(ledger.plan, ledger.totals, decision.odometers or {})
    if ours.fits != decision.fits and not _fits(ledger, decision.fits):
        yield Finding("fits", str(ours.fits), str(decision.fits))


def _fits(ledger: Ledger, text: str | None) -> bool:
    """Return whether the filter would have granted the claim that a refusal offers.

    A search in floats finds that claim, so another machine may offer another last digit.
    """
    try:
        asked = price(checked(parse_claim(text or "")), ledger.plan.kind.needs)
    except RequestInvalid:
        return False
    return ledger.plan.offered.fits(ledger.plan.capacity, ledger.spent, asked)
