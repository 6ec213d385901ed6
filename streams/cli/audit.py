"""`accountant audit`: decide every request of a log again, and verify its hashes and totals."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from streams.audit.deciding_process import DecidingProcess, InDoubt, NoSecondProcess
from streams.audit.local_checkpoints import forks_in, local_evidence
from streams.audit.partition_audit import PartitionAudit, audit_part
from streams.audit.partition_processes import PartitionProcesses, partition_processes
from streams.cli.printing.audited_answers import show_answers, show_not_compared
from streams.cli.printing.checkpoints import (
    compare_checkpoints,
    print_forks,
    print_report,
    read_evidence,
)
from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors
from streams.cli.printing.say import say
from streams.cli.reading.options import DEFAULT_URL, Archives, Json, LogUrl
from streams.errors import InputInvalid

if TYPE_CHECKING:
    from rich.progress import Progress

    from accountant.replay.audit import AuditReport, Disagreement
    from streams.audit.answer_comparison import AnswerComparison, AnswersReport
    from streams.evidence.comparison import Evidence
    from streams.log.log_reader import LogSource, Part

_LONG: Final = 20_000  # decisions; a process starts in the time of a few thousand
_HEAD: Final = re.compile(r"([0-9]{1,19}):(sha256:[0-9a-fA-F]{64})")
_HEAD_RULE: Final = "must be NUMBER:sha256: and 64 hexadecimal digits"
_LEDGER: Final = re.compile(r"[0-9a-f]{32}|sha256:[0-9a-f]{64}")
_LEDGER_RULE: Final = "must be the 32 hexadecimal digits that `accountant head` prints as ledger"


def audit(
    target: Annotated[
        str | None,
        typer.Argument(help="A ledger's file, an exported log, or an address. Default: --url."),
    ] = None,
    url: LogUrl = DEFAULT_URL,
    head: Annotated[
        str | None,
        typer.Option(
            help="NUMBER:sha256:... of a decision that the log must contain; store it elsewhere."
        ),
    ] = None,
    checkpoints: Annotated[
        str | None,
        typer.Option(
            help="Directory or kafka://HOST:PORT/TOPIC of signed checkpoints; the log must agree "
            "with them."
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            help="Public key of the checkpoints (`accountant key show`), or a file with it."
        ),
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(help="Id that the ledger must have; store it with the key."),
    ] = None,
    receipt: Annotated[
        list[Path] | None,
        typer.Option(
            help="Receipts that the log must contain: JSON lines, or a store of results.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    answers: Annotated[
        Path | None,
        typer.Option(
            help="Store of the answers to the log's questions. Default: the one beside a ledger's "
            "file.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    archive: Archives = None,
    from_seal: Annotated[
        bool,
        typer.Option(
            "--from-seal", help="Accept a log without its archives; check from the seal on."
        ),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Processes: 1; of more, a second one decides again, or each audits a partition. "
            "Default: for a long log, one for each core.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Verify a whole decision log, from its first record.

    Verifies the chain of hashes, the sequence numbers and the totals, and decides every request
    again. Then compares each row of the ledger's state with the log; an exported log has no state.
    Compares each stored answer with its grant, with the settlement of its session, and with what a
    run of its question can show; names each that differs.
    A log alone cannot show that its end is missing: add --head or --checkpoints. Exit code 1 if a
    record disagrees; the first one is named. If the beginning of the log was archived, name every
    archive with --archive, in order. Without them, the command checks what follows the seal and
    ends with 1; with --from-seal it ends with 0.
    """
    from streams.audit.answer_comparison import AnswersReport
    from streams.cli.printing.output import print_json
    from streams.log.log_reader import log_source

    with explain_errors():
        wanted, ledger = _parsed(head), _ledger_id(ledger)
        source = log_source(target or url, archive or ())
        looked = checkpoints is not None
        for split_from in dict.fromkeys((_split_from(jobs), None)):
            evidence = read_evidence(checkpoints, key, receipt)
            local = None if evidence is not None else local_evidence(source)
            with suppress(InDoubt), _comparison(source, answers, looked=looked) as opened:
                comparison = None if isinstance(opened, AnswersReport) else opened
                processes = None
                if split_from is not None and comparison is None:  # answers are compared in order
                    processes = partition_processes(
                        source, target or url, jobs or os.cpu_count() or 1, least=split_from
                    )
                reports = run_audit(
                    source,
                    wanted,
                    evidence or local,
                    comparison,
                    split_from=split_from,
                    processes=processes,
                )
                reports = [
                    (number, _with_signatures(number, _of_ledger(report, ledger)))
                    for number, report in reports
                ]
                compared = answered = None
                if evidence is not None:
                    compared = compare_checkpoints(
                        evidence, reports, looked=looked, is_meant=ledger is not None
                    )
                if opened is not None and all(report.right for _, report in reports):
                    answered = _answers_report(opened, reports, evidence)
                missing = _missing_answers(source) if opened is None else 0
                break
        forks = [] if local is None else forks_in(local, reports)
    right = bool(reports) and all(report.right for _, report in reports)
    right = right and (compared is None or compared.ok) and (answered is None or answered.ok)
    right = right and not forks
    whole = right and all(report.ok for _, report in reports)
    if json:
        partitions = [{"partition": number, "report": report} for number, report in reports]
        result = "ok" if whole else "from the seal on" if right else "failed"
        made = {
            "checkpoints": compared,
            "answers": answered,
            "answers_not_compared": missing or None,
            "forks": forks or None,
        }
        checks = {name: each for name, each in made.items() if each is not None}
        print_json(
            {"audit": result, "head_given": head is not None, "partitions": partitions} | checks
        )
    else:
        for number, report in reports:
            _show(number, report, wanted, looked=looked)
        if compared is not None:
            print_report(compared)
        print_forks(forks)
        if answered is not None:
            show_answers(answered)
        else:
            show_not_compared(evidence, has_answers=opened is not None, missing=missing)
        if not reports:
            say("the log is empty: it has no genesis record")
    if not whole and not (right and from_seal):
        raise typer.Exit(Exit.FAILED)


def run_audit(
    source: LogSource,
    head: tuple[int, str] | None = None,
    evidence: Evidence | None = None,
    answers: AnswerComparison | None = None,
    *,
    split_from: int | None = None,
    processes: PartitionProcesses | None = None,
) -> list[tuple[int, AuditReport]]:
    """Return the report on each partition of a log, showing progress on stderr.

    Args:
        head: number and hash of a decision that one of the partitions must hold; a log that
            was written to while it was copied may continue after it.
        evidence: receives the hashes that the log has at each checkpoint.
        answers: compares each decision with the stored answers.
        split_from: decide again in a second process where a partition has so many decisions; None
            to use one process.
        processes: audit the partitions in these, without `answers`; None for one after another.
    Raises: InDoubt: several processes did not all find everything right; use one.
    """
    from streams.cli.printing.output import progress

    def wanted_numbers(partition: int) -> set[int]:
        of_evidence = set() if evidence is None else evidence.numbers(partition)
        return of_evidence if head is None else of_evidence | {head[0]}

    reports = []
    hashes: list[str | None] = []  # of the decision that has the head's number, by part
    with progress(time_left=True) as bars:
        if processes is None:
            audits: Iterable[PartitionAudit] = _in_order(
                source, bars, wanted_numbers, answers, split_from
            )
        else:
            audits = _side_by_side(processes, bars, wanted_numbers)
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
    source: LogSource,
    bars: Progress,
    wanted: Callable[[int], set[int]],
    answers: AnswerComparison | None,
    split_from: int | None,
) -> Iterator[PartitionAudit]:
    """Audit one partition after another."""
    from streams.cli.printing.output import count_progress

    for each in source.parts():
        part = each if answers is None else answers.watch(each)
        task = bars.add_task(f"auditing partition {part.number}", total=part.total)
        with (
            count_progress(bars, part.values, task) as counting,
            _second_process(part, counting, split_from) as (second, values),
        ):
            check = None if second is None else second.check
            found = audit_part(part, values, wanted(part.number), check)
            if second is not None and not found.report.right:
                raise InDoubt
        yield found


def _side_by_side(
    processes: PartitionProcesses, bars: Progress, wanted: Callable[[int], set[int]]
) -> list[PartitionAudit]:
    tasks = [
        bars.add_task(f"auditing partition {size.number}", total=size.records)
        for size in processes.sizes
    ]
    return processes.audits(
        wanted, lambda place, records: bars.update(tasks[place], completed=records)
    )


def _split_from(jobs: int | None) -> int | None:
    """Return from how many decisions on a second process decides again, None for never."""
    if jobs is None:
        return _LONG if (os.cpu_count() or 1) > 1 else None
    return 0 if jobs > 1 else None


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


@contextmanager
def _comparison(
    source: LogSource, answers: Path | None, *, looked: bool
) -> Iterator[AnswerComparison | AnswersReport | None]:
    """Open the answers of a log; yield None if it has none, a report if none can be compared.

    Args:
        looked: there may be signed heads of answers, also of answers that are gone.
    """
    from streams.audit.answer_comparison import AnswerComparison
    from streams.log.log_reader import KafkaLog, SqliteLog

    if answers is None and isinstance(source, KafkaLog):
        import asyncio

        from streams.audit.answer_comparison import broken_answers
        from streams.kafka.service.answers import ChainBroken, read_all_answers

        try:
            topic = asyncio.run(read_all_answers(source.deployment))
        except ChainBroken as error:
            name = f"topic {source.deployment.topics.answers}"
            yield broken_answers(name, error.partition, str(error))
            return
        is_needed = topic is not None and (looked or bool(topic.ends()))
        yield AnswerComparison(topic) if topic is not None and is_needed else None
        return
    if answers is None and isinstance(source, SqliteLog):
        from streams.answers import answers_path

        beside = answers_path(source.path, None)
        answers = beside if beside.exists() else None
    if answers is None:
        yield None
        return
    from streams.answers.answer_file import open_answers

    read_head = None
    if isinstance(source, SqliteLog):
        from streams.embedded.answer_heads import LedgerAnswerHeads

        read_head = partial(LedgerAnswerHeads(source.path).read, 0)
    with open_answers(answers) as store:
        yield AnswerComparison(store, read_head)


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


def _of_ledger(report: AuditReport, ledger: str | None) -> AuditReport:
    """Return the report; it disagrees if the log belongs to another ledger than --ledger."""
    import msgspec

    from accountant.replay.audit import Disagreement

    if ledger is None or report.ledger == ledger or not report.right:
        return report
    other = Disagreement(
        partition_sequence=0, what="ledger", expected=ledger, found=str(report.ledger)
    )
    return msgspec.structs.replace(report, ok=False, first_disagreement=other)


def _with_signatures(number: int, report: AuditReport) -> AuditReport:
    """Return the report; it disagrees if a record in it has a wrong signature."""
    import msgspec

    from streams.evidence.log_signatures import first_wrong_signature

    wrong = first_wrong_signature(report, number) if report.right else None
    if wrong is None:
        return report
    return msgspec.structs.replace(report, ok=False, first_disagreement=wrong)


def _parsed(head: str | None) -> tuple[int, str] | None:
    if head is None:
        return None
    from accountant.errors import RequestInvalid

    parts = _HEAD.fullmatch(head)
    if parts is None:
        raise RequestInvalid("--head", _HEAD_RULE, head)
    return int(parts[1]), parts[2].lower()


def _ledger_id(ledger: str | None) -> str | None:
    if ledger is None:
        return None
    from accountant.errors import RequestInvalid

    found = ledger.strip().lower()
    if _LEDGER.fullmatch(found) is None:
        raise RequestInvalid("--ledger", _LEDGER_RULE, ledger)
    return found


def _show(number: int, report: AuditReport, head: tuple[int, str] | None, *, looked: bool) -> None:
    from rich.markup import escape

    from accountant.display.times import moment
    from accountant.replay.check_rows import REMAKE_ROWS
    from streams.cli.printing.output import stdout

    wrong = report.first_disagreement
    for loss in report.rollbacks:
        lost = f"decisions {loss.rollback.first} to {loss.rollback.last} were accepted as lost"
        stdout().print(
            f"[yellow]rollback[/] partition {number}, decision {loss.partition_sequence} at "
            f"{moment(loss.decided_at)}: {lost}: {escape(loss.note)}; signed by "
            f"key {escape(loss.rollback.key)}",
            soft_wrap=True,
        )
    for named in report.key_changes:
        change = named.change
        unsigned = "" if change.signature else " (unsigned)"
        stdout().print(
            f"[yellow]key[/] partition {number}, decision {named.partition_sequence} at "
            f"{moment(named.decided_at)}: {escape(change.key)} replaces {escape(change.by)}"
            f"{unsigned}: {escape(named.note)}",
            soft_wrap=True,
        )
    for each in report.administered:
        done = f"made {each.member} {' and '.join(each.roles)} on {each.dataset}"
        if not each.roles:
            done = f"removed {each.member} from {each.dataset}"
        stdout().print(
            f"[yellow]administrator[/] partition {number}, decision {each.partition_sequence} at "
            f"{moment(each.decided_at)}: {each.by} {done}"
            f"{f': {escape(each.reason)}' if each.reason else ''}",
            soft_wrap=True,
        )
    for brake in report.administered_pauses:
        stdout().print(
            f"[yellow]administrator[/] partition {number}, decision {brake.partition_sequence} at "
            f"{moment(brake.decided_at)}: {brake.by} {'paused' if brake.paused else 'resumed'} "
            f"{brake.dataset}{f': {escape(brake.reason)}' if brake.reason else ''}",
            soft_wrap=True,
        )
    if wrong is None and report.sealed is not None:
        stdout().print(
            f"[yellow]right from the seal on[/] partition {number}: {report.records} decisions "
            f"from decision {report.sealed} on, {report.decided_again} decided again"
            f"{_compared(report)}\n"
            f"   ledger {report.ledger}\n   head {report.sequence}:{report.head}\n"
            "   decisions before the seal were not checked: name each archive with --archive FILE",
            soft_wrap=True,
        )
        return
    if wrong is None:
        kinds = ", ".join(f"{count} {kind}" for kind, count in report.outcomes.items())
        stdout().print(
            f"[green]ok[/] partition {number}: {report.records} decisions of "
            f"{report.datasets} datasets, {report.decided_again} decided again "
            f"({kinds}){_compared(report)}\n   ledger {report.ledger}\n"
            f"   head {report.sequence}:{report.head}",
            soft_wrap=True,
        )
        if head is None and not looked:
            stdout().print(
                "   a log cannot show that later decisions are missing, as in an old copy: compare "
                "with --head or --checkpoints",
                style="dim",
                soft_wrap=True,
            )
        return
    if wrong.row is not None:
        stdout().print(
            f"[bold red]disagrees[/] partition {number}, `state`, {escape(wrong.row)}, "
            f"field {escape(wrong.what)}\n"
            f"   expected {escape(wrong.expected[:400])}\n"
            f"   found    {escape(wrong.found[:400])}\n"
            f"   all {report.records} decisions agree with each other, but this row does not "
            f"agree with them. Stop the ledger and keep a copy. {REMAKE_ROWS}",
            soft_wrap=True,
        )
        return
    if wrong.what == "partition_sequence" and not report.records and report.sealed is None:
        stdout().print(
            f"[bold red]disagrees[/] partition {number}: this log begins with decision "
            f"{escape(wrong.found)}. It is a part of a log, as `accountant log export` writes with "
            "--dataset, --id, --since, --until or --tail, or its beginning was removed. Nothing in "
            "it was checked: an audit needs the whole log, from decision 0 on",
            soft_wrap=True,
        )
        return
    restore = "" if wrong.what == "ledger" else ", and restore a backup that passes this audit"
    stdout().print(
        f"[bold red]disagrees[/] partition {number}, decision {wrong.partition_sequence}, "
        f"field {escape(wrong.what)}\n"
        f"   expected {escape(wrong.expected[:400])}\n"
        f"   found    {escape(wrong.found[:400])}\n"
        f"   {_checked(report, wrong, head)}. Keep a copy of this log{restore}",
        soft_wrap=True,
    )
    if looked and wrong.what not in {"head", "ledger"} and not wrong.what.endswith(".signature"):
        places = ""
        if wrong.what == "partition_sequence":
            places = (
                ": records are missing or doubled there, so the numbers of later ones are places "
                "in this log"
            )
        stdout().print(
            f"   what checkpoints show from decision {wrong.partition_sequence} on follows from "
            f"this{places}",
            soft_wrap=True,
        )


def _missing_answers(source: LogSource) -> int:
    """Return how many answers a ledger's file names whose store was not found."""
    from streams.log.log_reader import SqliteLog

    if not isinstance(source, SqliteLog):
        return 0
    from streams.embedded.answer_heads import LedgerAnswerHeads

    head = LedgerAnswerHeads(source.path).read(0)
    return 0 if head is None else head.head.number


def _answers_report(
    opened: AnswerComparison | AnswersReport,
    reports: list[tuple[int, AuditReport]],
    evidence: Evidence | None,
) -> AnswersReport:
    """Return what was found of the answers to a log that is right."""
    from streams.audit.answer_comparison import AnswersReport

    if isinstance(opened, AnswersReport):
        return opened
    if evidence is not None:
        opened.take_signed(evidence.answers_heads, evidence.trusted)
    return opened.report({number: each.ledger for number, each in reports})


def _compared(report: AuditReport) -> str:
    return "" if report.rows is None else f", {report.rows} rows of `state` agree with them"


def _checked(report: AuditReport, wrong: Disagreement, head: tuple[int, str] | None) -> str:
    """Return what the audit has verified of a log that disagrees, and no more than that."""
    number, records = wrong.partition_sequence, report.records
    since = "" if report.sealed is None else f" from decision {report.sealed} on"
    agree = f"all {records} decisions{since} agree with each other"
    if wrong.what == "ledger":
        return f"{agree}; but this log belongs to another ledger than --ledger names"
    if wrong.what.endswith(".signature"):
        return f"{agree}, but this one is not signed by the key that it names"
    if wrong.what == "head":
        if head is not None and wrong.expected == f"{head[0]} {head[1]}":
            return f"{agree}, but {_not_at_head(wrong)}, or the head belongs to another log"
        return f"{agree}, but {_not_at_head(wrong)}. That head is kept beside the log"
    if not records:
        return "no decision before it was checked"
    if wrong.what != "previous":
        # An edit with recomputed hashes is found where those hashes end, or the totals differ.
        return f"the {records} decisions before it{since} agree with each other"
    which = f"decision {number - 1} or {number} was changed, or both"
    if records == 1:
        return f"{which}; no other decision before them was checked"
    return f"{which}; the {records - 1} before these two{since} agree with each other"


def _not_at_head(wrong: Disagreement) -> str:
    """Return how a consistent log differs from a head."""
    expected, found = wrong.expected.split()[0], wrong.found.split()[0]
    if found == expected:
        return f"decision {found} has another hash: it or an earlier one was changed"
    return "the log does not end at the head: decisions were removed or added"
