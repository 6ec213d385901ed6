"""`accountant head`: the head of a log, to store elsewhere, or signed as a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail
from streams.cli.printing.out_file import Out, Replace, output_in
from streams.cli.printing.say import say
from streams.cli.reading.options import DEFAULT_URL, Json, TokenFile, Url

if TYPE_CHECKING:
    from accountant.views.heads import Head
    from streams.evidence import Checkpoint
    from streams.evidence.sinks import Sink


def head(
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    key: Annotated[
        Path | None,
        typer.Option(
            help="Sign each head as a checkpoint with this key (`accountant key create`)."
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            help="Store the checkpoints in a directory, kafka://HOST:PORT/TOPIC or https://...; "
            "without it, print them."
        ),
    ] = None,
    out: Out = None,
    replace: Replace = False,
    json: Json = False,
) -> None:
    """Print the ledger's id, and the number and hash of each partition's last decision.

    The hash covers the whole log up to that decision. Store it where the operator of the ledger
    cannot change it. Later, `accountant audit --head` shows whether the log was cut or rewritten;
    for signed checkpoints use `accountant audit --checkpoints`. Of a server, this prints what
    `GET /head` answers.
    """
    if to is not None and key is None:
        hint = "add --key FILE; `accountant key create` makes one"
        fail(Exit.USAGE, "--to stores signed checkpoints, so it needs a key", hint=hint)
    with explain_errors():
        # Opened first: a wrong address fails before a long log is read.
        place = None if to is None else _place(to)
        found = _heads(url, token_file, signs=key is not None)
        with output_in(out, replace=replace):
            if key is None:
                _print(found, json=json)
            else:
                _sign(found, key, place, json=json)


def _heads(url: str, token_file: Path | None, *, signs: bool) -> list[Head]:
    """Return the heads of a log, or those that a server names.

    Args:
        signs: the heads are to be signed, so they must be read from the log itself.
    """
    from streams.address import ledger_url
    from streams.cli.reading.dataset_reader import reader
    from streams.cli.reading.log_at import log_at
    from streams.log.heads import read_heads

    if "://" not in url or ledger_url(url).kind != "http":
        return read_heads(log_at(url))
    if signs:
        hint = "name the log itself (--url sqlite:///FILE or kafka://HOST:PORT), or leave out --key"
        fail(
            Exit.USAGE, "--key signs what was read from the log, not what a server says", hint=hint
        )
    with reader(url, token_file) as ledger:
        return ledger.heads()


def _print(found: list[Head], *, json: bool) -> None:
    from msgspec import UNSET

    from streams.cli.printing.output import print_json

    if not json:
        _show_ledger(found)
    for each in found:
        if json:
            branch = {} if each.branch is UNSET else {"branch": each.branch}
            print_json(
                {
                    "ledger": each.ledger,
                    "partition": each.partition,
                    **branch,
                    "partition_sequence": each.partition_sequence,
                    "head": each.head,
                }
            )
        else:
            say(f"partition {each.partition}: {each.partition_sequence}:{each.head}")


def _show_ledger(found: list[Head]) -> None:
    for ledger in dict.fromkeys(each.ledger for each in found):
        say(f"ledger {ledger}")


def _place(address: str) -> Sink:
    from streams.evidence.sink_choice import sink_at
    from streams.kafka.log.topic_sink import topic_sink
    from streams.settings import load_command

    return sink_at(address, load_command(), topic_sink)


def _sign(found: list[Head], key: Path, place: Sink | None, *, json: bool) -> None:
    from streams.cli.printing.output import print_json
    from streams.clock import SystemClock
    from streams.evidence import Checkpoint, SigningKey
    from streams.evidence.signed_checkpoint import sign_checkpoint

    secret, at = SigningKey.load(key), SystemClock().now()
    if place is not None and not json:
        _show_ledger(found)
    for each in found:
        checkpoint = Checkpoint(
            each.ledger,
            each.partition,
            each.branch or 0,
            each.partition_sequence,
            each.head,
            at,
        )
        note = sign_checkpoint(checkpoint, secret)
        where = None if place is None else place.put(checkpoint, note)
        if json:
            print_json(_fields(checkpoint, note, where))
        elif where is None:
            say(note.decode(), end="")
        else:
            say(f"partition {each.partition}: {each.partition_sequence}:{each.head} in {where}")


def _fields(checkpoint: Checkpoint, note: bytes, where: str | None) -> dict[str, object]:
    stored = {} if where is None else {"kept": where}
    return {
        "ledger": checkpoint.ledger,
        "partition": checkpoint.partition,
        "partition_sequence": checkpoint.sequence,
        "head": checkpoint.head,
        "note": note.decode(),
        **stored,
    }
