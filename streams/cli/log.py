"""`accountant log`: the decision log as JSON lines, and back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.archive import archive
from streams.cli.log_export import LogExport
from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail
from streams.cli.printing.out_file import Out, Replace, output_in
from streams.cli.printing.say import say
from streams.cli.reading.options import DEFAULT_URL, Archives, Json, LogUrl, parse_past
from streams.log.log_filter import MOST_LAST, LogFilter

if TYPE_CHECKING:
    from streams.kafka.deployment import Deployment
    from streams.kafka.operate.restore import RestoredPartition

app = typer.Typer(help="Read the decision log, archive or restore it.", no_args_is_help=True)
app.command("archive")(archive)


@app.command("export")
def export(
    url: LogUrl = DEFAULT_URL,
    request_id: Annotated[
        str | None, typer.Option("--id", help="Only the decisions on this request id.")
    ] = None,
    dataset: Annotated[str | None, typer.Option(help="Only the decisions on this dataset.")] = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="Only decisions made at or after this: P7D or PT8H ago, a day, or a time with its "
            "zone."
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Only decisions made before this, in the same forms.")
    ] = None,
    tail: Annotated[
        int | None, typer.Option(help=f"Only the last N of these, 1 to {MOST_LAST}.", metavar="N")
    ] = None,
    archives: Archives = None,
    out: Out = None,
    replace: Replace = False,
) -> None:
    """Write the decision log to stdout or a file, one decision a line, byte for byte.

    The hashes cover these bytes, so `accountant audit FILE` can check an export of the whole log.
    Options can choose decisions; all of them must hold, and --tail counts what the others leave.
    On Kafka one partition follows another. If the beginning of the log was archived, name every
    archive with --archive, in order. Exit code 1 if no decision is chosen.
    """
    from streams.cli.printing.output import progress, stdout
    from streams.cli.reading.log_at import log_at

    with explain_errors():
        if tail is not None and not 1 <= tail <= MOST_LAST:
            hint = "for more decisions, leave --tail out and choose by --since"
            fail(Exit.USAGE, f"--tail must be 1 to {MOST_LAST}, got {tail}", hint=hint)
        wanted = LogFilter(dataset, request_id, *_span(since, until), tail)
        # On a terminal, a progress bar would break up the lines of the log.
        is_shown = out is not None or not stdout().is_terminal
        with output_in(out, replace=replace), progress(wanted=is_shown) as bars:
            LogExport(log_at(url, archives or ()), wanted, bars).run()


def _span(since: str | None, until: str | None) -> tuple[str | None, str | None]:
    """Return both ends in the log's format; a wrong one ends the command."""
    from streams.clock import SystemClock

    now = SystemClock().now()
    begin = None if since is None else parse_past("--since", since, now)
    end = None if until is None else parse_past("--until", until, now)
    if begin is not None and end is not None and begin >= end:
        hint = "--since is the first moment that counts, --until the first one that does not"
        fail(Exit.USAGE, f"--since {begin} must be before --until {end}", hint=hint)
    return begin, end


@app.command("restore")
def restore(
    file: Annotated[Path, typer.Argument(help="What `log export` wrote.")],
    url: LogUrl = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Write an exported log back into the topic `decisions` on Kafka, byte for byte.

    Stop the workers first. The command audits the whole file before it writes anything. The topic
    may contain the beginning of the same log, so you can run an interrupted restore again. `state`
    does not change. Exit code 1 if a record disagrees, 4 if the topic or a setting does not match.
    """
    from streams.cli.printing.output import print_json

    with explain_errors():
        deployment = _deployment(url)
        done = _restored(file, deployment)
    if json:
        print_json({"partitions": done})
        return
    for each in done:
        say(
            f"partition {each.partition}: {each.found} decisions were in the topic, {each.written} "
            f"were written\n   head {each.sequence}:{each.head}"
        )


def _deployment(url: str) -> Deployment:
    from streams.address import ledger_url
    from streams.kafka.deployment import deployment_of
    from streams.settings import load_command

    kind = ledger_url(url).kind
    if kind == "sqlite":
        hint = "stop its process, move the file away with its -wal and -shm, and copy a backup back"
        what = "this command restores a log on Kafka; a ledger's file is restored by copying"
        fail(Exit.USAGE, what, hint=hint)
    if kind != "kafka":
        hint = "name the broker: --url kafka://HOST:PORT"
        fail(Exit.USAGE, "a log cannot be restored over HTTP", hint=hint)
    return deployment_of(load_command(url=url))


def _restored(file: Path, deployment: Deployment) -> list[RestoredPartition]:
    """Audit a file and write it back, showing progress on stderr."""
    from accountant.records import decode_decision
    from streams.audit.log_audit import run_audit
    from streams.cli.printing.audit_progress import audit_bars
    from streams.cli.printing.output import progress
    from streams.cli.reading.log_at import log_at
    from streams.cli.reading.unchanged_log import UnchangedLog
    from streams.kafka.operate.restore import Copy, restore
    from streams.log.exported_log import ExportedLog

    if file.exists() and not (file.is_file() and isinstance(log_at(str(file)), ExportedLog)):
        hint = "accountant log export --url kafka://HOST:PORT --out FILE"
        fail(Exit.USAGE, f"{file} must be a file that `accountant log export` wrote", hint=hint)
    log = UnchangedLog(file)
    with audit_bars() as shown:
        reports = run_audit(log, progress=shown)
    if not reports:
        fail(Exit.FAILED, f"{file} is empty: it has no genesis record. Nothing was written")
    copies = []
    for (number, report), first in zip(reports, log.firsts, strict=True):
        wrong = report.first_disagreement
        if wrong is not None:
            fail(
                Exit.FAILED,
                f"partition {number}, decision {wrong.partition_sequence}, field {wrong.what}: "
                f"expected {wrong.expected[:400]}, found {wrong.found[:400]}. Nothing was written",
                hint="use another copy, one that passes `accountant audit FILE`",
            )
        genesis = decode_decision(first).genesis
        assert genesis is not None  # the audit has checked this
        copies.append(Copy(genesis, report.records, report.head))
    with progress() as bars:
        tasks = {
            copy.genesis.partition: bars.add_task(
                f"restoring partition {copy.genesis.partition}", total=copy.total
            )
            for copy in copies
        }
        return asyncio.run(
            restore(
                deployment,
                copies,
                lambda: ((part.number, part.values) for part in log.parts()),
                progress=lambda number, done: bars.update(tasks[number], completed=done),
            )
        )
