"""Prints what a comparison of a log with checkpoints and receipts found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from streams.audit.checkpoints import CheckpointReport
    from streams.evidence.comparison import Compared, Found

_MOST_SHOWN: Final = 20


def print_forks(forks: list[str]) -> None:
    """Print what this user's own checkpoints show of two logs of one ledger."""
    from rich.markup import escape

    from streams.cli.printing.output import stdout

    for fork in forks[:_MOST_SHOWN]:
        stdout().print(
            f"[bold red]checkpoints[/] beside the ledger, {escape(fork)}", soft_wrap=True
        )


def print_report(report: CheckpointReport) -> None:
    """Print the result for people."""
    from rich.markup import escape

    from accountant.display.times import moment
    from streams.cli.printing.output import stdout

    out = stdout()
    if report.looked and not report.of_this_ledger:
        out.print("[bold red]no checkpoint[/] of this ledger was found", soft_wrap=True)
    for each in report.partitions:
        for wrong in each.wrong[:_MOST_SHOWN]:
            out.print(
                f"[bold red]checkpoints[/] partition {each.partition}, {escape(wrong)}",
                soft_wrap=True,
            )
        if len(each.wrong) > _MOST_SHOWN:
            out.print(f"   and {len(each.wrong) - _MOST_SHOWN} more of partition {each.partition}")
        if (line := _counts(each)) is not None:
            out.print(line, soft_wrap=True)
    for other in report.others[:_MOST_SHOWN]:
        out.print(
            f"[bold red]another ledger[/] {escape(other.ledger)}: it has {other.checkpoints} "
            f"checkpoints there, the last of decision {other.last} at {moment(other.at)}, signed "
            f"by {escape(other.key)}\n"
            "   If that is the id that you stored, this log has replaced your ledger: restore it. "
            "If you meant this log, add its id: --ledger ID",
            soft_wrap=True,
        )
    if len(report.others) > _MOST_SHOWN:
        out.print(f"   and {len(report.others) - _MOST_SHOWN} more ledgers")
    for found in report.receipts:
        out.print(_of_receipt(found, looked=report.looked), soft_wrap=True)
    for unread in report.unread[:_MOST_SHOWN]:
        out.print(f"[bold red]not trusted[/] {escape(unread)}", soft_wrap=True)


def _counts(compared: Compared) -> str | None:
    """Return how many of a partition's checkpoints were compared, None if there are none."""
    agree, where = compared.agree, f"partition {compared.partition}"
    others = []
    if compared.after_flaw:
        others.append(
            f"{compared.after_flaw} are of decisions from the disagreement on: they say nothing of "
            "those before it, and do not count"
        )
    if compared.given_up:
        others.append(f"{compared.given_up} concern decisions that a rollback accepted as lost")
    if compared.not_seen:
        others.append(
            f"{compared.not_seen} concern archived decisions, and were not compared: name each "
            "archive with --archive FILE"
        )
    if not agree and not others:
        return None
    if agree:
        others.insert(0, f"{agree} checkpoints agree, the last of decision {compared.last}")
    else:
        others.insert(0, "no checkpoint agrees")
    sound = agree and not compared.wrong and not compared.after_flaw
    mark = f"[green]ok[/] {where}" if sound else f"[yellow]checkpoints[/] {where}"
    return f"{mark}: {'; '.join(others)}"


def _of_receipt(found: Found, *, looked: bool) -> str:
    receipt = found.receipt
    what = f"receipt of decision {receipt.partition_sequence}, partition {receipt.partition}:"
    if found.there is None:
        return f"[yellow]{what}[/] not checked, it is in an archive: add --archive FILE"
    if not found.there:
        return f"[bold red]{what}[/] not in the log, which has another decision there, or none"
    if found.under is not None:
        return f"[green]{what}[/] in the log, and covered by the checkpoint of {found.under}"
    later = "; no checkpoint covers it yet" if looked else ""
    return f"[green]{what}[/] in the log{later}"
