"""`accountant audit`: decide every request of a log again, and check its chain and sums."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

from streams.cli.exits import Exit, explained
from streams.cli.options import DEFAULT_URL, Json, Url

if TYPE_CHECKING:
    from accountant.audit import AuditReport
    from streams.cli.log_source import LogSource

_HEAD_PARTS: Final = 2


def audit(
    target: Annotated[
        str | None,
        typer.Argument(help="A ledger's file, an exported log, or an address. Default: --url."),
    ] = None,
    url: Url = DEFAULT_URL,
    head: Annotated[
        str | None,
        typer.Option(help="NUMBER:sha256:... of a decision that must be there, kept elsewhere."),
    ] = None,
    json: Json = False,
) -> None:
    """Check a whole decision log, from its first record.

    Checks the chain of hashes, the sequences and the sums, and decides every request again.
    A log alone cannot show that its end is missing: the head is taken from the ledger's state
    where there is one, or from --head. Exit code 1 if a record disagrees; the first is named.
    """
    from streams.cli.log_source import log_source
    from streams.cli.output import print_json

    with explained():
        reports = audited(log_source(target or url), _parsed(head))
    ok = bool(reports) and all(report.ok for _, report in reports)
    if json:
        partitions = [{"partition": number, "report": report} for number, report in reports]
        result = "ok" if ok else "failed"
        print_json({"audit": result, "head_given": head is not None, "partitions": partitions})
    else:
        for number, report in reports:
            _show(number, report, head_given=head is not None)
        if not reports:
            typer.echo("the log is empty: there is not even a genesis")
    if not ok:
        raise typer.Exit(Exit.FAILED)


def audited(
    source: LogSource, head: tuple[int, str] | None = None
) -> list[tuple[int, AuditReport]]:
    """Return the report on each partition of a log, showing progress on stderr.

    Args:
        head: number and hash of a decision that one of the partitions must hold; a log that
            was still written while it was copied may go on behind it.
    """
    from accountant.audit import audit as audit_log
    from streams.cli.output import progress

    reports = []
    found: set[tuple[int, str]] = set()
    with progress() as bars:
        for part in source.parts():
            task = bars.add_task(f"auditing partition {part.number}", total=part.total)
            values = _looked_for(head, bars.track(part.values, task_id=task), found)
            reports.append((part.number, audit_log(values, expected_head=part.head)))
            for _ in part.values:  # what lies behind a disagreement, to reach the next part
                pass
    if head is not None and not found:
        reports = [(number, _without(report, head)) for number, report in reports]
    return reports


def _looked_for(
    head: tuple[int, str] | None, values: Iterable[bytes], found: set[tuple[int, str]]
) -> Iterator[bytes]:
    from accountant.partition import hash_of

    for number, value in enumerate(values):
        if head is not None and number == head[0] and hash_of(value) == head[1]:
            found.add(head)
        yield value


def _without(report: AuditReport, head: tuple[int, str]) -> AuditReport:
    """Return the report on a log that does not hold a decision known from elsewhere."""
    import msgspec

    from accountant.audit import Disagreement

    if not report.ok:
        return report
    missing = Disagreement(
        partition_sequence=head[0],
        what="head",
        expected=f"{head[0]} {head[1]}",
        found=f"the last decision is {report.sequence} {report.head}",
    )
    return msgspec.structs.replace(report, ok=False, first_disagreement=missing)


def _parsed(head: str | None) -> tuple[int, str] | None:
    if head is None:
        return None
    parts = head.split(":", 1)
    if len(parts) != _HEAD_PARTS or not parts[0].isdecimal():
        raise typer.BadParameter("must be NUMBER:sha256:...", param_hint="--head")
    return int(parts[0]), parts[1]


def _show(number: int, report: AuditReport, *, head_given: bool) -> None:
    from rich.markup import escape

    from streams.cli.output import stdout

    wrong = report.first_disagreement
    if wrong is None:
        kinds = ", ".join(f"{count} {kind}" for kind, count in report.outcomes.items())
        stdout().print(
            f"[green]ok[/] partition {number}: {report.records} decisions of "
            f"{report.datasets} datasets, {report.decided_again} decided again "
            f"({kinds})\n   head {report.sequence}:{report.head}",
            soft_wrap=True,
        )
        if not head_given:
            stdout().print(
                "   whether decisions are missing after this one, as in an old copy, only --head "
                "with a head kept elsewhere can show",
                style="dim",
                soft_wrap=True,
            )
        return
    stdout().print(
        f"[bold red]disagrees[/] partition {number}, decision {wrong.partition_sequence}, "
        f"field {escape(wrong.what)}\n"
        f"   expected {escape(wrong.expected[:400])}\n"
        f"   found    {escape(wrong.found[:400])}\n"
        f"   the {report.records} decisions before it are right; keep the log as it is, and "
        "restore it from a backup that passes",
        soft_wrap=True,
    )
