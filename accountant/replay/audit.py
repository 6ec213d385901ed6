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

from accountant.errors import MadeByPrereleaseVersion
from accountant.partition import NO_PREVIOUS, Partition, hash_of
from accountant.records import (
    FORMAT,
    RULES,
    Decision,
    Genesis,
    decode_decision,
    encode,
)
from accountant.records.operator_records import AcceptedRollback, KeyChangeRecord
from accountant.records.outcomes import Outcome
from accountant.replay.apply import apply, remember
from accountant.replay.decide_again import comes_before, redecide
from accountant.replay.grant_run import MAX_RUN, GrantRun
from accountant.replay.notable_records import (
    AdminMemberRecord,
    AdminPauseRecord,
    accepted_rollback,
    admin_member_record,
    admin_pause_record,
    key_change_record,
)
from accountant.replay.plain_text import plain
from accountant.replay.sealed_log import SealedStart, SealSnapshot, next_seal
from accountant.replay.state_comparison import Rows, StateRows, first_difference
from accountant.replay.sums import Finding, Findings, check_record, same
from accountant.views.heads import ledger_id_of
from accountant.views.tallies import DecisionTally, add

_FORGET_EVERY: Final = 4096
_PROGRESS_EVERY: Final = 1000
_PLACES: Final = frozenset({"decided_at", "floor", "source", "request", "part_of"})
_NO_RUNS: Final = 256  # records without a run after one that failed


class Disagreement(msgspec.Struct, frozen=True, kw_only=True):
    """The first record that an audit finds wrong.

    Attributes:
        partition_sequence: the record's place in the log, counted from 0; of a row of `state`, the
            last decision that the rows hold.
        what: the wrong field, or `record` or `row` where no single field can be named.
        row: the row of `state` that is wrong while all records are right.
    """

    partition_sequence: int
    what: str
    expected: str
    found: str
    row: str | None = None


class AuditReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an audit, up to the first disagreement.

    Attributes:
        ok: every record from decision 0 on was there, and is right.
        sealed: number of the seal from which on the records were checked, if the log's beginning
            is in an archive that was not given. `ok` is false then.
        records: number of right records. `decided_again`: the number of these with a request.
        granted, refused: numbers of requests.
        outcomes, reasons: number of records of each kind.
        sequence, head: number and hash of the last right record, -1 and zeros for none.
        branch: above it are only checkpoints of another log, see `records.Rollback`.
        rollbacks: those that the log has accepted, among the records.
        key_changes: changes of the key that signs checkpoints, among the records.
        administered: administrators' records about members, among the records.
        administered_pauses: administrators' pauses and resumes, among the records.
        rows: how many rows of `state` were compared with the log, None where there are none.
        ledger: the id of the ledger as the partition's genesis names it; of one without an id, the
            hash of decision 0. None without a genesis.
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
    branch: int = 0
    rollbacks: tuple[AcceptedRollback, ...] = ()
    key_changes: tuple[KeyChangeRecord, ...] = ()
    administered: tuple[AdminMemberRecord, ...] = ()
    administered_pauses: tuple[AdminPauseRecord, ...] = ()
    first_disagreement: Disagreement | None = None
    sealed: int | None = None
    rows: int | None = None
    ledger: str | None = None

    @property
    def right(self) -> bool:
        """Whether every record that was there is right."""
        return self.first_disagreement is None


class _FindingError(Exception):  # brings the first finding from any depth back to `take`
    def __init__(self, what: str, expected: object, found: object) -> None:
        self.what, self.expected, self.found = what, str(expected), str(found)
        super().__init__(what)


class Auditor:
    """Takes a log record by record, in memory of the size of the ledgers, ids and usage.

    Attributes:
        first: hash of decision 0.
        disagreement: the first one that is known; the auditor does not check later records.
    """

    def __init__(
        self,
        *,
        genesis: Genesis | None = None,
        most_ids: int | None = None,
        sealed: SealSnapshot | None = None,
        gapless: bool = False,
        in_runs: bool = True,
        decides: bool = True,
    ) -> None:
        """Expect a log that begins with `genesis`; None accepts any genesis.

        Args:
            most_ids: the most ids that the deciding partition remembered.
            sealed: the snapshot of a log whose beginning is in an archive; everything before the
                seal is then believed, if it is what the seal names.
            gapless: offsets of inputs have no gaps, as in a ledger's file.
            in_runs: take plain grants in runs, which is faster and gives the same report.
            decides: decide each request again. With False a `Decider` must read the same log, or
                nothing of the report holds.
        Raises: LogDamaged: the snapshot cannot be read.
        """
        self.disagreement: Disagreement | None = None
        self._partition: Partition | None = None
        self._counted = DecisionTally()
        self.first = ""
        self._begin_at = 0  # number of the first record that is checked
        self._start = None if sealed is None else SealedStart(genesis, sealed, most_ids=most_ids)
        self._genesis = genesis
        self._most_ids = most_ids
        self._gapless = gapless
        self._in_runs = in_runs
        self._decides = decides
        self._outcomes: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._decided_again = 0
        self._rollbacks: list[AcceptedRollback] = []
        self._key_changes: list[KeyChangeRecord] = []
        self._administered: list[AdminMemberRecord] = []
        self._administered_pauses: list[AdminPauseRecord] = []
        self._rows: int | None = None
        self._right = 0  # records outside the run
        self._run: GrantRun | None = None
        self._without_runs = 0  # so many records more

    @property
    def partition(self) -> Partition | None:
        """The state after the records taken so far, None before the first."""
        self._end_run()
        return self._partition

    @property
    def counted(self) -> DecisionTally:
        """The usage in the records taken so far."""
        self._end_run()
        return self._counted

    @property
    def records(self) -> int:
        """Number of right records."""
        return self._right if self._run is None else self._right + len(self._run.values)

    @property
    def requests(self) -> int:
        """Number of right records with a request, outside the run."""
        return self._decided_again

    @property
    def reached(self) -> int:
        """Number of the last record taken, -1 for none."""
        if self._run is not None:
            return self._run.sequence
        return -1 if self._partition is None else self._partition.sequence

    @property
    def _next(self) -> int:
        return self._begin_at + self._right

    def take(self, value: bytes) -> bool:
        """Check the next record; return False from the first known disagreement on.

        The records of a run are checked at its end. `partition` and `report` end it.
        Raises: MadeByPrereleaseVersion: of the first one: its format is no longer read.
        """
        if self.disagreement is not None:
            return False
        if not self._take_in_run(value):
            self._end_run()
            self._take_alone(value)
        return self.disagreement is None

    def _take_in_run(self, value: bytes) -> bool:
        """Take a plain grant in a run; return whether that was done."""
        run = self._run
        if run is None:
            if self._partition is None or not self._in_runs:
                return False
            if self._without_runs:
                self._without_runs -= 1
                return False
            run = self._run = GrantRun(
                self._partition, gapless=self._gapless, decides=self._decides
            )
        is_taken = run.take(value)
        if is_taken and len(run.values) >= MAX_RUN:
            self._end_run()
        return is_taken

    def _end_run(self) -> None:
        """Move what was taken in a run into the state."""
        run = self._run
        if run is None:
            return
        if not run.end(self._counted):
            self._take_run_alone(run)
            return
        self._run = None
        count = len(run.values)
        if count:
            self._right += count
            self._decided_again += count
            self._outcomes[str(Outcome.GRANTED)] += count

    def _take_run_alone(self, run: GrantRun) -> None:
        """Take the records of a run that failed one by one, to name what is wrong."""
        self._run, self._without_runs = None, _NO_RUNS
        for value in run.values:
            if self.disagreement is None:
                self._take_alone(value)

    def _take_alone(self, value: bytes) -> None:
        if self.disagreement is not None:
            return
        try:
            self._take(value)
        except MadeByPrereleaseVersion:
            if self._partition is None:
                raise  # of the first record: the whole log is one that is no longer read
            self._disagree("version", str(FORMAT), "none")
        except _FindingError as wrong:
            self._disagree(wrong.what, wrong.expected, wrong.found)
        except Exception as error:
            # A forged record may raise anything in the code that reads it: a disagreement, too.
            self._disagree("record", "a decision", f"{type(error).__name__}: {error}")

    def compare(self, rows: Rows) -> None:
        """Compare the rows of `state` with the records taken so far."""
        partition = self.partition
        if self.disagreement is not None or partition is None:
            return
        self._rows = len(rows)
        difference = first_difference(partition, rows)
        if difference is not None:
            self.disagreement = Disagreement(
                partition_sequence=partition.sequence,
                what=difference.field,
                expected=difference.expected,
                found=difference.found,
                row=difference.row,
            )

    def report(self, *, expected_head: tuple[int, str] | None = None) -> AuditReport:
        """Return the report of the records taken so far.

        Args:
            expected_head: (sequence, hash) of the log's last record, from another source.
        """
        partition = self.partition
        sequence, head = (
            (-1, NO_PREVIOUS) if partition is None else (partition.sequence, partition.head)
        )
        if self.disagreement is None and self._start is not None:
            self._disagree("record", "the seal of the snapshot", "the end of the log")
        if self.disagreement is None and partition is None:
            self._disagree("genesis", "decision 0", "an empty log")
        if self.disagreement is None and expected_head not in (None, (sequence, head)):
            assert expected_head is not None
            self._disagree("head", " ".join(map(str, expected_head)), f"{sequence} {head}")
        return AuditReport(
            ok=self.disagreement is None and not self._begin_at,
            sealed=self._begin_at or None,
            records=self.records,
            decided_again=self._decided_again,
            granted=self._outcomes[Outcome.GRANTED],
            refused=self._outcomes[Outcome.REFUSED],
            outcomes=dict(self._outcomes),
            reasons=dict(self._reasons),
            datasets=0 if partition is None else len(partition.ledgers),
            sequence=sequence,
            head=head,
            branch=0 if partition is None else partition.branch,
            rollbacks=tuple(self._rollbacks),
            key_changes=tuple(self._key_changes),
            administered=tuple(self._administered),
            administered_pauses=tuple(self._administered_pauses),
            first_disagreement=self.disagreement,
            rows=self._rows,
            ledger=None if partition is None else ledger_id_of(partition.genesis, self.first),
        )

    def _disagree(self, what: str, expected: str, found: str) -> None:
        self.disagreement = Disagreement(
            partition_sequence=self._next, what=what, expected=expected, found=found
        )

    def _take(self, value: bytes) -> None:
        decision = decode_decision(value)
        if self._start is not None:
            self._begin_at = decision.partition_sequence  # of the seal, once that is reached
            self._partition = self._start.take(value)
            if self._partition is None:
                return
            self._counted, self.first = self._start.counted, str(self._start.first)
            self._start = None
        partition = self._partition
        previous = NO_PREVIOUS if partition is None else partition.head
        _raise_first(same("partition_sequence", self._next, decision.partition_sequence))
        _raise_first(same("previous", previous, decision.previous))
        # Each record is decided again by the rules that it names: one that is only added up could
        # claim to have spent almost nothing.
        _raise_first(same("rules", RULES, decision.rules))
        if encode(decision) != value:
            raise _FindingError("record", "the bytes that a decision is written as", "others")
        digest = hash_of(value)
        if partition is None:
            self._begin(decision)
        else:
            self._check(partition, decision, value)
        partition = self._partition
        assert partition is not None
        self.first = self.first or digest
        add(self._counted, value)
        apply(partition, decision, digest)
        if self._decides:
            remember(partition, decision, digest)
        if self._right % _FORGET_EVERY == 0 or len(partition.ids) >= partition.ids.maximum:
            partition.ids.forget(partition.floor)
        self._right += 1
        self._outcomes[str(decision.outcome)] += 1
        if decision.reason is not None:
            self._reasons[str(decision.reason)] += 1

    def _begin(self, decision: Decision) -> None:
        genesis = decision.genesis
        if genesis is None or decision.outcome is not Outcome.GENESIS:
            raise _FindingError("genesis", "decision 0", decision.outcome)
        if self._genesis is not None:
            _raise_first(same("genesis", self._genesis.settings, genesis.settings))
        _raise_first(same("sequence", None, decision.sequence))
        self._partition = Partition(genesis, most_ids=self._most_ids)

    def _check(self, partition: Partition, decision: Decision, value: bytes) -> None:
        if decision.genesis is not None or decision.outcome is Outcome.GENESIS:
            raise _FindingError("genesis", "one genesis", "another one")
        for finding in check_record(partition, decision, gapless=self._gapless):
            raise _FindingError(*self._cause(partition, decision, value, finding))
        if decision.outcome is Outcome.SEALED:
            _raise_first(self._check_seal(partition, decision))
        if decision.rollback is not None:
            self._rollbacks.append(accepted_rollback(decision, decision.rollback))
        if decision.key_change is not None:
            self._key_changes.append(key_change_record(partition, decision, decision.key_change))
        if bytes(decision.request):
            if self._decides:
                _raise_first(redecide(partition, decision, value))
            self._decided_again += 1
        if decision.administrator and decision.member is not None:
            self._administered.append(admin_member_record(decision, decision.member))
        elif decision.administrator:
            self._administered_pauses.append(admin_pause_record(decision))

    def _cause(
        self, partition: Partition, decision: Decision, value: bytes, finding: Finding
    ) -> Finding:
        """Return what a finding follows from, such as a wrong outcome instead of its cost.

        The request decided again says that, unless the record's place or time is wrong: then it
        would be decided at another one.
        """
        is_place = finding.what.partition(".")[0] in _PLACES
        if is_place or not bytes(decision.request) or not self._decides:
            return finding
        first = next(redecide(partition, decision, value), finding)
        return first if comes_before(first.what, finding.what) else finding

    def _check_seal(self, partition: Partition, decision: Decision) -> Findings:
        seal = decision.seal
        if seal is None or not 0 < seal.archived <= partition.sequence:
            yield Finding("seal", "the last archived decision, one before this", plain(seal))
            return
        # Whoever reads archive and log as one checks the hash of the last archived decision.
        before = seal.archived, seal.head
        due = next_seal(partition, self._counted, self.first, before)
        for field in seal.__struct_fields__:
            yield from same(f"seal.{field}", getattr(due, field), getattr(seal, field))


def audit(
    records: Iterable[bytes],
    *,
    expected_head: tuple[int, str] | None = None,
    genesis: Genesis | None = None,
    most_ids: int | None = None,
    progress: Callable[[int], None] | None = None,
    sealed: SealSnapshot | None = None,
    state: StateRows | None = None,
    gapless: bool = False,
    decided: Callable[[Partition, int], None] | None = None,
) -> AuditReport:
    """Check one partition's log, given as the bytes of its decisions in order.

    Args:
        expected_head: (sequence, `sha256:...`) of the last record, from another source; without
            it the audit cannot notice a missing tail.
        genesis: the genesis that decision 0 must have, None if unknown.
        most_ids: the most ids that the deciding partition remembered.
        progress: called with the number of records after every 1,000 records.
        sealed, gapless: as of `Auditor`.
        state: rows to compare with the log where they end, at its own end if they name no decision.
        decided: another process decides the requests again. Called at the end with the state, and
            with the number of requests; raises unless that process came to the same.
    """
    auditor = Auditor(
        genesis=genesis,
        most_ids=most_ids,
        sealed=sealed,
        gapless=gapless,
        decides=decided is None,
    )
    end = None if state is None or state.end is None else state.end[0]
    try:
        for value in records:
            if not auditor.take(value):
                break
            if state is not None and auditor.reached == end:
                auditor.compare(state.rows)
                state = None
            if progress is not None and auditor.records % _PROGRESS_EVERY == 0:
                progress(auditor.records)
    except Exception:
        # The next record cannot be read. A wrong one in the run before it comes first.
        if auditor.partition is None or auditor.disagreement is None:
            raise
    if state is not None and (end is None or auditor.reached > end):
        auditor.compare(state.rows)
    if decided is not None and auditor.partition is not None:
        decided(auditor.partition, auditor.requests)
    return auditor.report(expected_head=expected_head)


def _raise_first(findings: Findings) -> None:
    for finding in findings:
        raise _FindingError(*finding)
