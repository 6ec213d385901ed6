"""`accountant log`: the decision log as JSON lines, and back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.archive import archive
from streams.cli.printing.exits import Exit, check_partition_counts, explained, fail
from streams.cli.printing.say import say
from streams.cli.reading.options import DEFAULT_URL, Archives, Json, LogUrl

if TYPE_CHECKING:
    from streams.cli.reading.log_reader import Part
    from streams.kafka.deployment import Deployment
    from streams.kafka.restore import RestoredPartition

app = typer.Typer(help="Read the decision log, archive or restore it.", no_args_is_help=True)
app.command("archive")(archive)


@app.command("export")
def export(
    url: LogUrl = DEFAULT_URL,
    request_id: Annotated[
        str | None, typer.Option("--id", help="Only the decisions on this request id.")
    ] = None,
    archives: Archives = None,
) -> None:
    """Write the decision log to stdout, one decision a line, byte for byte.

    The bytes are those that the chain of hashes covers, so `accountant audit FILE` can check
    an export. On Kafka the partitions follow one another. Exit code 1 if --id finds nothing.
    A log whose beginning was archived is exported together with its archives.
    """
    from streams.cli.printing.lasting_streams import nobody_reads
    from streams.cli.printing.output import counted, progress, stdout, write_lines
    from streams.cli.reading.log_reader import log_source

    # A bar between the lines of the log helps nobody.
    bar = progress(wanted=not stdout().is_terminal)
    with explained(), bar as bars:
        found, is_cut = 0, False
        for part in log_source(url, archives or ()).parts():
            is_cut |= part.sealed is not None
            if is_cut and request_id is None:
                fail(
                    Exit.USAGE,
                    "the beginning of this log was archived",
                    hint="name each archive with --archive FILE, in their order",
                )
            task = bars.add_task(f"partition {part.number}", total=part.total)
            with counted(bars, part.values, task) as values:
                for value in (
                    values
                    if request_id is None
                    else _about(zip(part.numbers(), values, strict=False), request_id)
                ):
                    write_lines([value])
                    found += 1
                    if nobody_reads():
                        return
        check_partition_counts()
    if request_id is not None and not found:
        hint = "--archive FILE looks into an archive, too" if is_cut else None
        fail(Exit.FAILED, f"no decision on request {request_id} is in this log", hint=hint)


def _about(values: Iterable[tuple[int, bytes]], request_id: str) -> Iterator[bytes]:
    """Yield the decisions of one partition that are about a request.

    Raises: LogDamaged: one that may be cannot be read.
    """
    import msgspec

    from accountant.records import decode_decision
    from accountant.records.decoding import decoded

    needle = request_id.encode()
    for number, value in values:
        if needle in value:
            body = bytes(decoded(number, value, decode_decision).request)
            request = msgspec.json.decode(body) if body else {}
            if isinstance(request, dict) and request.get("request_id") == request_id:
                yield value


@app.command("restore")
def restore(
    file: Annotated[Path, typer.Argument(help="What `log export` wrote.")],
    url: LogUrl = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Write an exported log back into the topic `decisions` on Kafka, byte for byte.

    Stop the workers first. The whole file is audited before anything is written, and what the
    topic holds must be its beginning: a restore that was interrupted is run again. `state` is
    left alone. Exit code 1 if a record disagrees, 4 if the topic or a setting is another's.
    """
    from streams.cli.printing.output import print_json

    with explained():
        deployment = _deployment(url)
        done = _restored(file, deployment)
    if json:
        print_json({"partitions": done})
        return
    for each in done:
        say(
            f"partition {each.partition}: {each.found} decisions were there, {each.written} "
            f"written\n   head {each.sequence}:{each.head}"
        )


def _deployment(url: str) -> Deployment:
    from streams.address import ledger_url
    from streams.kafka.deployment import deployment_of
    from streams.settings import load_command

    kind = ledger_url(url).kind
    if kind == "sqlite":
        hint = "stop its process, move the old file away with its -wal and -shm, copy a backup back"
        fail(Exit.USAGE, "only a log on Kafka is restored; a ledger's file is copied", hint=hint)
    if kind != "kafka":
        fail(Exit.USAGE, "a gateway restores no log", hint="--url kafka://HOST:PORT")
    return deployment_of(load_command(url=url))


def _restored(file: Path, deployment: Deployment) -> list[RestoredPartition]:
    """Audit a file and write it back, showing progress on stderr."""
    from accountant.records import decode_decision
    from streams.cli.audit import audited
    from streams.cli.printing.output import progress
    from streams.cli.reading.log_reader import ExportedLog, log_source
    from streams.kafka.restore import Copy, restore

    if file.exists() and not (file.is_file() and isinstance(log_source(str(file)), ExportedLog)):
        hint = "accountant log export --url kafka://HOST:PORT > FILE"
        fail(Exit.USAGE, f"{file} must be a file that `accountant log export` wrote", hint=hint)
    log = _Copied(file)
    reports = audited(log)
    if not reports:
        fail(Exit.FAILED, f"{file} is empty: there is not even a genesis. Nothing was written")
    copies = []
    for (number, report), first in zip(reports, log.firsts, strict=True):
        wrong = report.first_disagreement
        if wrong is not None:
            fail(
                Exit.FAILED,
                f"partition {number}, decision {wrong.partition_sequence}, field {wrong.what}: "
                f"expected {wrong.expected[:400]}, found {wrong.found[:400]}. Nothing was written",
                hint="another copy, one that `accountant audit FILE` passes",
            )
        genesis = decode_decision(first).genesis
        assert genesis is not None  # or the audit would have said so
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


class _Copied:
    """An exported log that is read more than once, and must not change meanwhile.

    Attributes:
        firsts: the first decision of each part, once they have been read.
    """

    def __init__(self, path: Path) -> None:
        self.firsts: list[bytes] = []
        self._path = path
        self._begun = self._stamp()

    def _stamp(self) -> tuple[int, int, int]:
        found = self._path.stat()
        return found.st_ino, found.st_size, found.st_mtime_ns

    def parts(self) -> Iterator[Part]:
        from streams.cli.reading.log_reader import ExportedLog

        self.firsts.clear()
        for part in ExportedLog(self._path).parts():
            yield part._replace(values=self._same(part.values))

    def seen(self) -> Mapping[int, tuple[int, str]]:
        return {}

    def _same(self, values: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the decisions of a part; what is written is what was audited.

        Raises: Refused: the file was changed.
        """
        from streams.errors import Refused

        for number, value in enumerate(values):
            if self._stamp() != self._begun:
                raise Refused(f"{self._path} was changed while it was read: run this again")
            if number == 0:
                self.firsts.append(value)
            yield value
