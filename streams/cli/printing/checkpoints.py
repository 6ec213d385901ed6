"""What checkpoints say of a log, on the screen and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from streams.cli.printing.exits import Exit, fail

if TYPE_CHECKING:
    from accountant.replay.audit import AuditReport
    from streams.checkpoints.comparison import Compared, Evidence

_MOST_SHOWN = 20


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a directory of checkpoints says of a log.

    Attributes:
        ok: the log agrees with all of them, and there is one.
        unread: notes that are no checkpoint, or that no known key has signed, each with why.
    """

    ok: bool
    of_this_ledger: bool
    partitions: list[Compared]
    unread: list[str]


def evidence_of(directory: Path | None, keys: list[str] | None) -> Evidence | None:
    """Return the checkpoints in a directory that known keys have signed.

    Raises: Refused, Unavailable.
    """
    from streams.checkpoints import Directory, Verifier
    from streams.checkpoints.comparison import Evidence

    if directory is None:
        if keys:
            fail(Exit.USAGE, "--key goes with --checkpoints DIRECTORY")
        return None
    if not keys:
        hint = "--key with what `accountant key show` prints, kept since it was made"
        fail(Exit.USAGE, "--checkpoints needs the public key that signs them", hint=hint)
    texts = [Path(key).read_text("ascii") if Path(key).is_file() else key for key in keys]
    return Evidence(Directory(directory).notes(), map(Verifier.parse, texts))


def tell(evidence: Evidence, reports: Iterable[tuple[int, AuditReport]]) -> Told:
    """Return what the checkpoints say of a log that was read."""
    begins = {number: report.sealed for number, report in reports if report.sealed is not None}
    partitions = evidence.compared(begins)
    right = not evidence.unread and not any(each.wrong for each in partitions)
    return Told(
        ok=right and evidence.of_this_ledger,
        of_this_ledger=evidence.of_this_ledger,
        partitions=partitions,
        unread=evidence.unread,
    )


def show_told(told: Told) -> None:
    """Print what the checkpoints say."""
    from rich.markup import escape

    from streams.cli.printing.output import stdout

    out = stdout()
    if not told.of_this_ledger:
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
            out.print(
                f"[green]ok[/] partition {each.partition}: {each.agree} checkpoints agree, the "
                f"last of decision {each.last}{behind}",
                soft_wrap=True,
            )
    for unread in told.unread[:_MOST_SHOWN]:
        out.print(f"[bold red]not believed[/] {escape(unread)}", soft_wrap=True)
