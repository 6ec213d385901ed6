"""`accountant head`: the head of a log, to be kept elsewhere, and signed as a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.printing.exits import Exit, explained, fail
from streams.cli.reading.options import DEFAULT_URL, Json, LogUrl

if TYPE_CHECKING:
    from streams.checkpoints import Checkpoint
    from streams.cli.reading.heads import Head


def head(
    url: LogUrl = DEFAULT_URL,
    key: Annotated[
        Path | None,
        typer.Option(help="Sign each head as a checkpoint (`accountant key create`)."),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(help="Keep the checkpoints in this directory; without it, print them."),
    ] = None,
    json: Json = False,
) -> None:
    """Print the number and hash of each partition's last decision.

    The hash covers the whole log up to there. Kept where whoever runs the ledger cannot change it,
    it shows later that nothing was cut off or written anew: `accountant audit --head`, or of a
    directory of signed checkpoints `accountant audit --checkpoints`.
    """
    from streams.cli.printing.output import print_json
    from streams.cli.reading.heads import heads_of
    from streams.cli.reading.log_reader import log_source

    if to is not None and key is None:
        fail(Exit.USAGE, "--to keeps signed checkpoints", hint="--key FILE, from `accountant key`")
    with explained():
        found = heads_of(log_source(url))
        if key is not None:
            _sign(found, key, to, json=json)
            return
    for each in found:
        if json:
            fields = {"ledger": each.ledger, "partition": each.partition, "branch": each.branch}
            print_json(fields | {"partition_sequence": each.sequence, "head": each.head})
        else:
            typer.echo(f"partition {each.partition}: {each.sequence}:{each.head}")


def _sign(found: list[Head], key: Path, to: Path | None, *, json: bool) -> None:
    from streams.checkpoints import Checkpoint, Directory, SigningKey
    from streams.checkpoints.note import signed
    from streams.cli.printing.output import print_json
    from streams.clock import SystemClock

    secret, at = SigningKey.load(key), SystemClock().now()
    for each in found:
        checkpoint = Checkpoint(
            each.ledger, each.partition, each.branch, each.sequence, each.head, at
        )
        note = signed(checkpoint, secret)
        file = None if to is None else Directory(to).put(checkpoint, note)
        if json:
            print_json(_fields(checkpoint, note, file))
        elif file is None:
            typer.echo(note.decode(), nl=False)
        else:
            typer.echo(f"partition {each.partition}: {each.sequence}:{each.head} in {file}")


def _fields(checkpoint: Checkpoint, note: bytes, file: str | None) -> dict[str, object]:
    kept = {} if file is None else {"file": file}
    return {
        "ledger": checkpoint.ledger,
        "partition": checkpoint.partition,
        "partition_sequence": checkpoint.sequence,
        "head": checkpoint.head,
        "note": note.decode(),
        **kept,
    }
