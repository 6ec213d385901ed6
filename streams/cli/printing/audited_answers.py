"""Says what an audit has found of the answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streams.audit.answer_comparison import AnswersReport
    from streams.evidence.comparison import Evidence


def show_not_compared(evidence: Evidence | None, *, has_answers: bool, missing: int) -> None:
    """Say which answers were not compared, and why."""
    from streams.cli.printing.output import stdout

    heads = [] if evidence is None else evidence.answers_heads
    if has_answers:
        stdout().print("the answers were not compared: first repair the log", soft_wrap=True)
    elif missing:
        stdout().print(
            f"[yellow]not compared[/] answers: the ledger's file names {missing}, and no store of "
            "them is beside it. If it is elsewhere, add --answers FILE. If it is lost, "
            "docs/how-to/backup-and-restore.md says what to do",
            soft_wrap=True,
        )
    elif heads:
        what = f"{len(heads)} signed heads of answers were not compared: add --answers FILE"
        stdout().print(what, soft_wrap=True)


def show_answers(report: AnswersReport) -> None:
    """Say what a comparison of answers with their log has found."""
    from rich.markup import escape

    from streams.cli.printing.output import stdout

    store = escape(report.store)
    if report.ok:
        others = ""
        if report.waiting:
            have = "question has" if report.waiting == 1 else "questions have"
            others = f"; {report.waiting} {have} no answer"
        if report.archived:
            others += f"; {report.archived} concern archived decisions"
        if report.lost:
            others += f"; {report.lost} sessions were settled by a store that is lost"
        stdout().print(
            f"[green]ok[/] answers: {report.compared} in {store} agree with the log{others}\n"
            f"   {_values_shown(report)}",
            soft_wrap=True,
        )
        return
    for wrong in report.disagreements:
        where = f"partition {wrong.partition}"
        if wrong.partition_sequence is not None:
            where += f", decision {wrong.partition_sequence}"
        if wrong.grant is not None:
            where += f", the answer to grant {escape(wrong.grant)}"
        stdout().print(
            f"[bold red]disagrees[/] answers, {where}, field {escape(wrong.what)}\n"
            f"   expected {escape(wrong.expected[:400])}\n"
            f"   found    {escape(wrong.found[:400])}",
            soft_wrap=True,
        )
    if report.in_doubt:
        what = (
            f"the decisions agree with each other, but {store} may not have the answers that were "
            "stored last. A value may have been changed, and a question whose answer is missing "
            "would be drawn a second time"
        )
    else:
        several = report.disagreeing > 1
        number = f"{report.disagreeing} answers" if several else "1 answer"
        what = (
            f"the decisions agree with each other, but {number} in {store} "
            f"{'disagree' if several else 'disagrees'} with them. What was shown may have cost "
            "more than was charged, or is no answer of this ledger"
        )
    stdout().print(f"   {what}. Stop the ledger and keep copies of both", soft_wrap=True)


def _values_shown(report: AnswersReport) -> str:
    """Return what is known of the values themselves, which no log has."""
    if report.last_signed is not None:
        earlier = (
            f"; {report.given_up} are of an earlier beginning of the answers, which were given up"
            if report.given_up
            else ""
        )
        return (
            f"{report.signed_heads - report.given_up} signed heads of the answers agree, up to "
            f"answer {report.last_signed}{earlier}"
        )
    if report.ledger_head is not None:
        return (
            f"the ledger's file names the last of {report.ledger_head} answers, and it is there. "
            "Whoever can write both files can change both: compare with --checkpoints"
        )
    return (
        "their values are not on the log: another draw may have taken the place of each. No head "
        "of the answers was compared: --checkpoints names signed ones, and the ledger's own file "
        "has one once a curator has opened the store"
    )
