"""`accountant log archive`: move the beginning of a ledger's log into a compressed file."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from accountant.display.numbers import counted
from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail
from streams.cli.printing.say import say
from streams.cli.reading.options import DEFAULT_URL, Json, LogUrl, parse_past

if TYPE_CHECKING:
    from streams.embedded.archive import ArchiveResult
    from streams.settings import Settings


def archive(
    file: Annotated[Path, typer.Argument(help="The new archive, such as census-2026.jsonl.gz.")],
    before: Annotated[
        str,
        typer.Option(
            help="Archive the decisions before this: P90D or PT8H ago, a day, or a time with its "
            "zone."
        ),
    ],
    reason: Annotated[str, typer.Option(help="Why; recorded permanently, 1 to 200 characters.")],
    url: LogUrl = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Move the beginning of a stopped ledger's log into a compressed file, permanently.

    Audits the whole log and writes the file. Then seals the ledger: one decision records the
    hashes of the archive, the state and the usage. At last it frees the disk space. Spent budget
    does not change. Keep the archive: without it, `accountant audit` can only check the log from
    the seal on.
    """
    from accountant.times import from_iso
    from streams.address import ledger_url
    from streams.cli.printing.output import print_json
    from streams.clock import SystemClock
    from streams.settings import load_command

    with explain_errors():
        at = from_iso(parse_past("--before", before, SystemClock().now()))
        where = ledger_url(url)
        if where.kind == "kafka":
            hint = "use the broker's tiered storage (docs/how-to/archive.md)"
            fail(Exit.USAGE, "a ledger on Kafka has no archives", hint=hint)
        if where.kind != "sqlite":
            hint = "name the ledger's file: --url sqlite:///FILE"
            fail(Exit.USAGE, "a log cannot be archived over HTTP", hint=hint)
        done, trouble = _archived(load_command(url=url), Path(where.target), file, at, reason)
    if json:
        print_json(_fields(file, done) | ({} if trouble is None else {"size_kept": trouble}))
        return
    earlier = "--archive EACH-EARLIER-ONE " if done.first else ""
    say(
        f"decisions {done.first} to {done.last} were moved to {file}, {done.bytes:,} bytes\n"
        f"   head {done.last}:{done.head}\n"
        f"the seal is decision {done.seal.partition_sequence}; the ledger keeps "
        f"{counted(done.rest, 'decision')}\n"
        f"   head {done.seal.partition_sequence}:sha256:{done.seal.digest.hex()}\n"
        f"to check the whole log: accountant audit --url {url} {earlier}--archive {file}"
    )
    if trouble is not None:
        say(f"the ledger's file keeps its size: {trouble}", err=True)


def _fields(file: Path, done: ArchiveResult) -> dict[str, Any]:
    return {
        "file": str(file),
        "bytes": done.bytes,
        "first": done.first,
        "last": done.last,
        "head": done.head,
        "kept": done.rest,
        "seal": done.seal.partition_sequence,
        "seal_hash": f"sha256:{done.seal.digest.hex()}",
    }


def _archived(
    settings: Settings, ledger: Path, file: Path, before: int, note: str
) -> tuple[ArchiveResult, str | None]:
    """Archive; return the result, and why the ledger's file did not shrink, if it did not."""
    from accountant.partition.operate import check_note
    from streams.cli.printing.output import progress
    from streams.cli.stopped_ledger import StoppedLog
    from streams.client.connection.connect import check_exists
    from streams.clock import CheckedClock, SystemClock
    from streams.embedded.archive import archive as archive_log
    from streams.embedded.file_ownership import stopped_ledger
    from streams.errors import JournalFault

    check_note(note)
    check_exists(ledger)
    clock, target, ledger = SystemClock(), file.absolute(), ledger.absolute()

    async def work() -> tuple[ArchiveResult, str | None]:
        try:
            done = await archive_log(
                journal,
                ledger,
                genesis,
                CheckedClock(clock, settings.max_ahead_ms),
                target,
                before=before,
                note=note,
                progress=lambda what, count: bars.update(task, description=what, completed=count),
                compare=StoppedLog(0, journal, genesis, clock, ledger, settings).compare,
            )
            try:
                await journal.shrink()
            except JournalFault as error:
                return done, str(error)
            return done, None
        finally:
            await journal.drop()

    with stopped_ledger(ledger, settings, clock.now()) as (journal, genesis), progress() as bars:
        task = bars.add_task("reading", total=None)
        return asyncio.run(work())
