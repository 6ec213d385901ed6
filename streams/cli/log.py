"""`accountant log`: the decision log as JSON lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

import typer

from streams.cli.exits import Exit, explained, fail
from streams.cli.options import DEFAULT_URL, LogUrl

app = typer.Typer(help="Read the decision log.", no_args_is_help=True)


@app.callback()
def _log() -> None:
    """Keep `export` a command of its own, though it is the only one."""


@app.command("export")
def export(
    url: LogUrl = DEFAULT_URL,
    request_id: Annotated[
        str | None, typer.Option("--id", help="Only the decisions on this request id.")
    ] = None,
) -> None:
    """Write the decision log to stdout, one decision a line, byte for byte.

    The bytes are those that the chain of hashes covers, so `accountant audit FILE` can check
    an export. On Kafka the partitions follow one another. Exit code 1 if --id finds nothing.
    """
    from streams.cli.log_source import log_source
    from streams.cli.output import counted, progress, stdout, write_lines

    # A bar between the lines of the log helps nobody.
    bar = progress(wanted=not stdout().is_terminal)
    with explained(), bar as bars:
        found = 0
        for part in log_source(url).parts():
            task = bars.add_task(f"partition {part.number}", total=part.total)
            with counted(bars, part.values, task) as values:
                for value in values if request_id is None else _about(values, request_id):
                    write_lines([value])
                    found += 1
    if request_id is not None and not found:
        fail(Exit.FAILED, f"no decision on request {request_id} is in this log")


def _about(values: Iterable[bytes], request_id: str) -> Iterator[bytes]:
    """Yield the decisions of one partition that are about a request.

    Raises: LogDamaged: one that may be cannot be read.
    """
    import msgspec

    from accountant.records import decode_decision
    from streams.cli.decoding import decoded

    needle = request_id.encode()
    for number, value in enumerate(values):
        if needle in value:
            body = bytes(decoded(number, value, decode_decision).request)
            request = msgspec.json.decode(body) if body else {}
            if isinstance(request, dict) and request.get("request_id") == request_id:
                yield value
