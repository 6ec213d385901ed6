"""`accountant audit`: decide every request of a log again, and verify its hashes and totals."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from accountant.display.numbers import counted
from streams.audit.checkpoints import compare_checkpoints, read_evidence
from streams.audit.deciding_process import InDoubt
from streams.audit.local_checkpoints import forks_in, local_evidence
from streams.audit.log_answers import answers_report, comparison_of, missing_answers
from streams.audit.log_audit import of_ledger, run_audit, with_signatures
from streams.audit.partition_processes import partition_processes
from streams.cli.printing.audit_progress import audit_bars
from streams.cli.printing.audited_answers import show_answers, show_not_compared
from streams.cli.printing.checkpoints import print_forks, print_report
from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors
from streams.cli.printing.say import say
from streams.cli.reading.options import (
    DEFAULT_URL,
    AnswerStoreFile,
    Archives,
    Json,
    LogUrl,
    Receipts,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from accountant.replay.audit import AuditReport, Disagreement
    from streams.answers.answer_file import AnswerFile
    from streams.audit.answer_comparison import AnswersReport
    from streams.audit.checkpoints import CheckpointReport
    from streams.evidence.comparison import Evidence
    from streams.log.decision_log import DecisionLog

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
            metavar="NUMBER:sha256:HEX",
            help="A decision that the log must contain; `accountant head` prints it.",
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
    receipt: Receipts = None,
    answers: AnswerStoreFile = None,
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
            help="How many processes audit. With two or more, one of them decides again, or each "
            "audits a partition. Default: for a long log, one for each core.",
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
    from streams.cli.reading.log_at import log_at

    with explain_errors():
        wanted, ledger = _parsed(head), _ledger_id(ledger)
        source = log_at(target or url, archive or ())
        found = audit_log(
            source,
            lambda: read_evidence(checkpoints, key, receipt),
            answers,
            head=wanted,
            looked=checkpoints is not None,
            ledger=ledger,
            again=partial(log_at, target or url),
            jobs=jobs,
        )
    if json:
        print_audit_json(found)
    else:
        print_audit(found)
    if not found.is_whole and not (found.is_right and from_seal):
        raise typer.Exit(Exit.FAILED)


class AuditResult(NamedTuple):
    """What an audit has found.

    Attributes:
        reports: of each partition.
        head, looked: as of `audit_log`.
        evidence: checkpoints and receipts that were compared, None for none.
        compared, answered: what was found of them, and of the answers.
        has_answers: answers were compared, or could not be.
        missing: how many answers the ledger's file names whose store was not found.
        forks: what shows that two logs of this ledger were signed.
    """

    reports: list[tuple[int, AuditReport]]
    head: tuple[int, str] | None
    looked: bool
    evidence: Evidence | None
    compared: CheckpointReport | None
    answered: AnswersReport | None
    has_answers: bool
    missing: int
    forks: list[str]

    @property
    def is_right(self) -> bool:
        """Nothing that was checked is wrong."""
        right = bool(self.reports) and all(report.right for _, report in self.reports)
        right = right and (self.compared is None or self.compared.ok)
        return right and (self.answered is None or self.answered.ok) and not self.forks

    @property
    def is_whole(self) -> bool:
        """Nothing is wrong, and the whole log was checked."""
        return self.is_right and all(report.ok for _, report in self.reports)


def audit_log(
    source: DecisionLog,
    read: Callable[[], Evidence | None],
    answers: Path | AnswerFile | None = None,
    *,
    head: tuple[int, str] | None = None,
    looked: bool,
    ledger: str | None = None,
    again: Callable[[], DecisionLog] | None = None,
    jobs: int | None = None,
) -> AuditResult:
    """Audit a log, with bars on stderr.

    Args:
        read: reads the checkpoints and receipts to compare with; called again for a second run.
        answers: as of `comparison_of`.
        head: number and hash of a decision that the log must have.
        looked: `read` reads checkpoints.
        ledger: the id that the ledger must have.
        again: opens the same log in another process; None to use one process.
        jobs: how many processes.
    """
    from streams.audit.answer_comparison import AnswersReport

    for split_from in dict.fromkeys((_split_from(jobs) if again else None, None)):
        evidence = read()
        local = None if evidence is not None else local_evidence(source)
        with suppress(InDoubt), comparison_of(source, answers, looked=looked) as opened:
            comparison = None if isinstance(opened, AnswersReport) else opened
            processes = None
            if again is not None and split_from is not None and comparison is None:
                count = jobs or os.cpu_count() or 1  # answers are compared in order
                processes = partition_processes(source, again, count, least=split_from)
            with audit_bars() as bars:
                reports = run_audit(
                    source,
                    head,
                    evidence or local,
                    comparison,
                    split_from=split_from,
                    processes=processes,
                    progress=bars,
                )
            reports = [
                (number, with_signatures(number, of_ledger(report, ledger)))
                for number, report in reports
            ]
            compared = answered = None
            if evidence is not None:
                is_meant = ledger is not None
                compared = compare_checkpoints(evidence, reports, looked=looked, is_meant=is_meant)
            if opened is not None and all(report.right for _, report in reports):
                answered = answers_report(opened, reports, evidence)
            missing = missing_answers(source) if opened is None else 0
            break
    forks = [] if local is None else forks_in(local, reports)
    return AuditResult(
        reports=reports,
        head=head,
        looked=looked,
        evidence=evidence,
        compared=compared,
        answered=answered,
        has_answers=opened is not None,
        missing=missing,
        forks=forks,
    )


def print_audit_json(found: AuditResult) -> None:
    """Print what an audit has found, as one JSON object."""
    from streams.cli.printing.output import print_json

    partitions = [{"partition": number, "report": report} for number, report in found.reports]
    result = "ok" if found.is_whole else "from the seal on" if found.is_right else "failed"
    made = {
        "checkpoints": found.compared,
        "answers": found.answered,
        "answers_not_compared": found.missing or None,
        "forks": found.forks or None,
    }
    checks = {name: each for name, each in made.items() if each is not None}
    is_given = found.head is not None
    print_json({"audit": result, "head_given": is_given, "partitions": partitions} | checks)


def print_audit(found: AuditResult) -> None:
    """Print what an audit has found, for people."""
    if not found.reports:  # the cause of all that is missing
        say("the log is empty: it has no genesis record")
    for number, report in found.reports:
        _show(number, report, found.head, looked=found.looked)
    if found.compared is not None:
        print_report(found.compared)
    print_forks(found.forks)
    if found.answered is not None:
        show_answers(found.answered)
    else:
        show_not_compared(found.evidence, has_answers=found.has_answers, missing=found.missing)


def _split_from(jobs: int | None) -> int | None:
    """Return from how many decisions on a second process decides again, None for never."""
    if jobs is None:
        return _LONG if (os.cpu_count() or 1) > 1 else None
    return 0 if jobs > 1 else None


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
        person = brake.member or (f"team {brake.team}" if brake.team else "")
        what = f"{person} on {brake.dataset}" if person else brake.dataset
        stdout().print(
            f"[yellow]administrator[/] partition {number}, decision {brake.partition_sequence} at "
            f"{moment(brake.decided_at)}: {brake.by} {'paused' if brake.paused else 'resumed'} "
            f"{what}{f': {escape(brake.reason)}' if brake.reason else ''}",
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
            f"[green]ok[/] partition {number}: {counted(report.records, 'decision')} of "
            f"{counted(report.datasets, 'dataset')}, {report.decided_again} decided again "
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


def _compared(report: AuditReport) -> str:
    if report.rows is None:
        return ""
    return f", {counted(report.rows, 'row')} of `state` agree{'s' * (report.rows == 1)} with them"


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
