"""Compares a log with checkpoints and receipts, and prints the result."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import fail

if TYPE_CHECKING:
    from accountant.records.receipts import Receipt
    from accountant.replay.audit import AuditReport
    from streams.evidence.comparison import Compared, Evidence, Found, OtherLedger

_MOST_SHOWN: Final = 20
_SQLITE: Final = b"SQLite format 3\x00"


class CheckpointReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a comparison, as --json prints it.

    Attributes:
        ok: the log agrees with all checkpoints, at least one, and has every receipt.
        looked: whether --checkpoints was used.
        others: other ledgers with checkpoints there, where --ledger does not name the right one.
        unread: checkpoints that cannot be read or have no known signature, each with the reason.
    """

    ok: bool
    looked: bool
    of_this_ledger: bool
    partitions: list[Compared]
    others: list[OtherLedger]
    unread: list[str]
    receipts: list[Found]


def read_evidence(
    place: str | None, keys: list[str] | None, receipts: list[Path] | None
) -> Evidence | None:
    """Return the receipts, and the checkpoints that the known keys have signed.

    Raises: Refused, Unavailable.
    """
    from streams.evidence import Verifier
    from streams.evidence.answers_head import is_answers_head
    from streams.evidence.comparison import Evidence
    from streams.evidence.sink_choice import readable_sink_at
    from streams.kafka.log.topic_sink import topic_sink
    from streams.settings import load_command

    found_receipts = [receipt for path in receipts or () for receipt in _receipts(path)]
    if place is None:
        if keys:
            fail(Exit.USAGE, "--key needs --checkpoints", hint="add --checkpoints DIRECTORY")
        return Evidence(receipts=found_receipts) if receipts else None
    if not keys:
        hint = "add --key with the public key that you stored; `accountant key show` prints it"
        fail(Exit.USAGE, "--checkpoints needs the public key of the checkpoints", hint=hint)
    texts = [Path(key).read_text("ascii") if Path(key).is_file() else key for key in keys]
    notes = [*readable_sink_at(place, load_command(), topic_sink).notes()]
    evidence = Evidence(
        (each for each in notes if not is_answers_head(each[1])),
        map(Verifier.parse, texts),
        found_receipts,
    )
    evidence.answers_heads = [each for each in notes if is_answers_head(each[1])]
    return evidence


def _receipts(path: Path) -> list[Receipt]:
    """Return the receipts in a file: JSON lines, or a store of results."""
    from accountant.records import DECODE_ERRORS
    from accountant.records.receipts import read_receipt
    from streams.client.releases.store import ResultStore

    with path.open("rb") as file:
        is_store = file.read(len(_SQLITE)) == _SQLITE
    lines = map(str.encode, ResultStore(path).receipts()) if is_store else _lines(path)
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(read_receipt(line))
        except DECODE_ERRORS as error:
            fail(Exit.USAGE, f"{path}, line {number}, is not a receipt: {error}")
    return found


def _lines(path: Path) -> list[bytes]:
    return [line for line in path.read_bytes().split(b"\n") if line.strip()]


def compare_checkpoints(
    evidence: Evidence,
    reports: Iterable[tuple[int, AuditReport]],
    *,
    looked: bool,
    is_meant: bool,
) -> CheckpointReport:
    """Compare the checkpoints and receipts with a log that was read.

    Args:
        looked: whether --checkpoints was used.
        is_meant: --ledger names the ledger, so checkpoints of others do not count.
    """
    by_partition = dict(reports)
    partitions = evidence.compared(by_partition)
    others = [] if is_meant else evidence.others()
    right = not evidence.unread and not others and not any(each.wrong for each in partitions)
    receipts = evidence.receipts(by_partition)
    right = right and all(each.there for each in receipts)
    return CheckpointReport(
        ok=right and (evidence.of_this_ledger or not looked),
        looked=looked,
        of_this_ledger=evidence.of_this_ledger,
        partitions=partitions,
        others=others,
        unread=evidence.unread,
        receipts=receipts,
    )


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
