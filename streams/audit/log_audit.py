"""The audit of a whole log: every request decided again, every hash and total verified."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain, islice
from typing import TYPE_CHECKING, Protocol

from streams.audit.deciding_process import DecidingProcess, InDoubt, NoSecondProcess
from streams.audit.partition_audit import PartitionAudit, audit_part
from streams.errors import InputInvalid

if TYPE_CHECKING:
    from accountant.replay.audit import AuditReport
    from streams.audit.answer_comparison import AnswerComparison
    from streams.audit.partition_processes import PartitionProcesses
    from streams.evidence.comparison import Evidence
    from streams.log.decision_log import DecisionLog, Part, PartSize


class AuditProgress(Protocol):
    """Shows how far an audit has come."""

    def counted(self, part: Part) -> AbstractContextManager[Iterator[bytes]]:
        """Yield the values of a partition, and count them as the block takes them."""
        ...

    def side_by_side(self, sizes: Sequence[PartSize]) -> Callable[[int, int], None]:
        """Begin partitions that are audited at the same time.

        Returns: called with the place of a partition, and the number of its audited records.
        """
        ...


def run_audit(
    source: DecisionLog,
    head: tuple[int, str] | None = None,
    evidence: Evidence | None = None,
    answers: AnswerComparison | None = None,
    *,
    split_from: int | None = None,
    processes: PartitionProcesses | None = None,
    progress: AuditProgress | None = None,
) -> list[tuple[int, AuditReport]]:
    """Return the report on each partition of a log.

    Args:
        head: number and hash of a decision that one of the partitions must hold; a log that
            was written to while it was copied may continue after it.
        evidence: receives the hashes that the log has at each checkpoint.
        answers: compares each decision with the stored answers.
        split_from: decide again in a second process where a partition has so many decisions; None
            to use one process.
        processes: audit the partitions in these, without `answers`; None for one after another.
        progress: shows how far the audit has come.
    Raises: InDoubt: several processes did not all find everything right; use one. InputInvalid:
        the head is older than the seal.
    """

    def wanted_numbers(partition: int) -> set[int]:
        of_evidence = set() if evidence is None else evidence.numbers(partition)
        return of_evidence if head is None else of_evidence | {head[0]}

    reports = []
    hashes: list[str | None] = []  # of the decision that has the head's number, by part
    if processes is None:
        audits: Iterable[PartitionAudit] = _in_order(
            source, wanted_numbers, answers, split_from, progress
        )
    else:
        audits = _side_by_side(processes, wanted_numbers, progress)
    for each in audits:
        if evidence is not None:
            if each.first is not None:
                evidence.begin(each.number, each.first)
            evidence.take(each.number, each.hashes, each.last)
        report = each.report
        for at in each.known:
            if each.hashes[at[0]] != at[1]:
                report = _without(report, at, each.hashes[at[0]])
        reports.append((each.number, report))
        hashes.append(None if head is None else each.hashes[head[0]])
    if head is not None and head[1] not in hashes:
        pairs = zip(reports, hashes, strict=True)
        reports = [(number, _without(report, head, there)) for (number, report), there in pairs]
    return reports


def _in_order(
    source: DecisionLog,
    wanted: Callable[[int], set[int]],
    answers: AnswerComparison | None,
    split_from: int | None,
    progress: AuditProgress | None,
) -> Iterator[PartitionAudit]:
    """Audit one partition after another."""
    for each in source.parts():
        part = each if answers is None else answers.watch(each)
        with (
            nullcontext(part.values) if progress is None else progress.counted(part) as values,
            _second_process(part, values, split_from) as (second, sent),
        ):
            check = None if second is None else second.check
            found = audit_part(part, sent, wanted(part.number), check)
            if second is not None and not found.report.right:
                raise InDoubt
        yield found


def _side_by_side(
    processes: PartitionProcesses,
    wanted: Callable[[int], set[int]],
    progress: AuditProgress | None,
) -> list[PartitionAudit]:
    show = _nothing if progress is None else progress.side_by_side(processes.sizes)
    return processes.audits(wanted, show)


def _nothing(place: int, records: int) -> None:
    """Show nothing of an audit."""


@contextmanager
def _second_process(
    part: Part, values: Iterator[bytes], split_from: int | None
) -> Iterator[tuple[DecidingProcess | None, Iterable[bytes]]]:
    """Start a second process for a long log; yield it, None without one, and the same values.

    If the system starts none, this process decides again, too.
    """
    if split_from is None or part.archived is not None:
        yield None, values
        return
    begin: list[bytes] = []
    damage: list[Exception] = []
    try:
        for value in islice(values, split_from):
            begin.append(value)  # noqa: PERF402
    except Exception as error:  # a record before it may be wrong, which comes first
        damage.append(error)
    if damage or len(begin) < split_from:
        yield None, chain(begin, _raise_all(damage), values)
        return
    try:
        process = DecidingProcess()
    except NoSecondProcess:
        yield None, chain(begin, values)
        return
    with process as second:
        try:
            yield second, second.watch(chain(begin, values))
        except Exception as error:  # the second process may have found a record before that
            raise InDoubt from error


def _raise_all(errors: list[Exception]) -> Iterator[bytes]:
    for error in errors:
        raise error
    yield from ()


def _without(report: AuditReport, head: tuple[int, str], there: str | None) -> AuditReport:
    """Return the report on a log that lacks a decision known from elsewhere.

    Args:
        there: hash of the log's own decision of that number, None if the log ends before it.
    """
    import msgspec

    from accountant.replay.audit import Disagreement

    if not report.right:
        return report
    number = head[0]
    if report.sealed is not None and there is None and number < report.sealed:
        what = f"decision {number} is older than the seal, so it is in an archive"
        hint = "name each archive with --archive FILE"
        raise InputInvalid(f"--head {number}: {what}", hint=hint)
    ends = f"the log ends at decision {report.sequence} {report.head}, before decision {number}"
    why = "decisions are missing, or the head is another log's"
    missing = Disagreement(
        partition_sequence=number,
        what="head",
        expected=f"{number} {head[1]}",
        found=f"{ends}: {why}" if there is None else f"{number} {there}",
    )
    return msgspec.structs.replace(report, ok=False, first_disagreement=missing)


def of_ledger(report: AuditReport, ledger: str | None) -> AuditReport:
    """Return the report; it disagrees if the log belongs to another ledger."""
    import msgspec

    from accountant.replay.audit import Disagreement

    if ledger is None or report.ledger == ledger or not report.right:
        return report
    other = Disagreement(
        partition_sequence=0, what="ledger", expected=ledger, found=str(report.ledger)
    )
    return msgspec.structs.replace(report, ok=False, first_disagreement=other)


def with_signatures(number: int, report: AuditReport) -> AuditReport:
    """Return the report; it disagrees if a record in it has a wrong signature."""
    import msgspec

    from streams.evidence.log_signatures import first_wrong_signature

    wrong = first_wrong_signature(report, number) if report.right else None
    if wrong is None:
        return report
    return msgspec.structs.replace(report, ok=False, first_disagreement=wrong)
