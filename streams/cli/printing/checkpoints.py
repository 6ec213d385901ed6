"""What checkpoints say of a log, on the screen and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from streams.cli.printing.exits import Exit, fail

if TYPE_CHECKING:
    from accountant.records.receipts import Receipt
    from accountant.replay.audit import AuditReport
    from streams.evidence.comparison import Compared, Evidence, Found, OtherLedger

_MOST_SHOWN: Final = 20
_SQLITE: Final = b"SQLite format 3\x00"


class CheckpointReport(msgspec.Struct, frozen=True, kw_only=True):
    """What checkpoints and receipts say of a log.

    Attributes:
        ok: the log agrees with all checkpoints, and there is one, and has every receipt.
        looked: whether a place of checkpoints was given.
        others: ledgers that are not this one, and whether it is the one that was meant is not said.
        unread: notes that are no checkpoint, or that no known key has signed, each with why.
    """

    ok: bool
    looked: bool
    of_this_ledger: bool
    partitions: list[Compared]
    others: list[OtherLedger]
    unread: list[str]
    receipts: list[Found]


def evidence_of(
    place: str | None, keys: list[str] | None, receipts: list[Path] | None
) -> Evidence | None:
    """Return the checkpoints in a place that known keys have signed, and receipts.

    Raises: Refused, Unavailable.
    """
    from streams.evidence import Verifier
    from streams.evidence.comparison import Evidence
    from streams.evidence.sink_choice import readable_place_of
    from streams.kafka.topic_sink import topic_sink
    from streams.settings import load_command

    kept = [receipt for path in receipts or () for receipt in _receipts(path)]
    if place is None:
        if keys:
            fail(Exit.USAGE, "--key goes with --checkpoints PLACE")
        return Evidence(receipts=kept) if receipts else None
    if not keys:
        hint = "--key with what `accountant key show` prints, kept since it was made"
        fail(Exit.USAGE, "--checkpoints needs the public key that signs them", hint=hint)
    texts = [Path(key).read_text("ascii") if Path(key).is_file() else key for key in keys]
    notes = readable_place_of(place, load_command(), topic_sink).notes()
    return Evidence(notes, map(Verifier.parse, texts), kept)


def _receipts(path: Path) -> list[Receipt]:
    """Return the receipts in a file: JSON lines, or a store of answers."""
    from accountant.records import DECODE_ERRORS
    from accountant.records.receipts import read_receipt
    from streams.client.results.store import ResultStore

    with path.open("rb") as file:
        is_store = file.read(len(_SQLITE)) == _SQLITE
    lines = map(str.encode, ResultStore(path).receipts()) if is_store else _lines(path)
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(read_receipt(line))
        except DECODE_ERRORS as error:
            fail(Exit.USAGE, f"{path}, line {number}, is no receipt: {error}")
    return found


def _lines(path: Path) -> list[bytes]:
    return [line for line in path.read_bytes().split(b"\n") if line.strip()]


def tell(
    evidence: Evidence,
    reports: Iterable[tuple[int, AuditReport]],
    *,
    looked: bool,
    is_meant: bool,
) -> CheckpointReport:
    """Return what the checkpoints and receipts say of a log that was read.

    Args:
        looked: whether a place of checkpoints was given.
        is_meant: the log is of the ledger that was asked for by its id, so others may be there.
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


def show_told(told: CheckpointReport) -> None:
    """Print what the checkpoints say."""
    from rich.markup import escape

    from accountant.display.times import moment
    from streams.cli.printing.output import stdout

    out = stdout()
    if told.looked and not told.of_this_ledger:
        out.print("[bold red]no checkpoint[/] of this ledger is there", soft_wrap=True)
    for each in told.partitions:
        for wrong in each.wrong[:_MOST_SHOWN]:
            out.print(
                f"[bold red]checkpoints[/] partition {each.partition}, {escape(wrong)}",
                soft_wrap=True,
            )
        if len(each.wrong) > _MOST_SHOWN:
            out.print(f"   and {len(each.wrong) - _MOST_SHOWN} more of partition {each.partition}")
        if not each.wrong and each.agree:
            behind = f"; {each.not_seen} are of the archive" if each.not_seen else ""
            behind += f"; {each.given_up} were given up by a rollback" if each.given_up else ""
            out.print(
                f"[green]ok[/] partition {each.partition}: {each.agree} checkpoints agree, the "
                f"last of decision {each.last}{behind}",
                soft_wrap=True,
            )
    for other in told.others[:_MOST_SHOWN]:
        out.print(
            f"[bold red]another ledger[/] {escape(other.ledger)}: {other.checkpoints} checkpoints "
            f"of it are there, the last of decision {other.last} at {moment(other.at)}, signed by "
            f"{escape(other.key)}\n"
            "   If you kept that id, this log was put in the place of the ledger: restore it. If "
            "you mean this log, name its id: --ledger ID",
            soft_wrap=True,
        )
    if len(told.others) > _MOST_SHOWN:
        out.print(f"   and {len(told.others) - _MOST_SHOWN} more ledgers")
    for found in told.receipts:
        out.print(_of_receipt(found, looked=told.looked), soft_wrap=True)
    for unread in told.unread[:_MOST_SHOWN]:
        out.print(f"[bold red]not believed[/] {escape(unread)}", soft_wrap=True)


def _of_receipt(found: Found, *, looked: bool) -> str:
    receipt = found.receipt
    what = f"receipt of decision {receipt.partition_sequence}, partition {receipt.partition}:"
    if found.there is None:
        return f"[yellow]{what}[/] it is in an archive: name that with --archive FILE"
    if not found.there:
        return f"[bold red]{what}[/] the log lacks it: it has another decision there, or none"
    if found.under is not None:
        return f"[green]{what}[/] in the log, under the checkpoint of decision {found.under}"
    behind = "; no checkpoint is as late" if looked else ""
    return f"[green]{what}[/] in the log{behind}"
