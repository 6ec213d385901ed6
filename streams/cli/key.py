"""`accountant key`: keys that sign checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.printing.exits import Exit, explained, fail
from streams.cli.printing.say import say
from streams.cli.reading.options import DEFAULT_URL, Json, Url
from streams.cli.stopped_ledger import stopped_settings, write_records

if TYPE_CHECKING:
    from accountant.records.encoded_decision import EncodedDecision
    from streams.cli.stopped_ledger import StoppedLog
    from streams.evidence.keys import SigningKey, Verifier

app = typer.Typer(help="Keys that sign checkpoints of a log.", no_args_is_help=True)


@app.command("create")
def create(
    file: Annotated[Path, typer.Argument(help="Where to keep the secret: mode 0600.")],
    name: Annotated[
        str, typer.Option(help="What auditors know the key by, such as census.example.org.")
    ] = "accountant",
) -> None:
    """Make an Ed25519 key, and print its public half: give that to whoever audits."""
    from streams.evidence.keys import SigningKey

    with explained():
        say(SigningKey.create(file, name).verifier.text)


@app.command("show")
def show(file: Annotated[Path, typer.Argument(help="A file that `key create` made.")]) -> None:
    """Print the public half of a key."""
    from streams.evidence.keys import SigningKey

    with explained():
        say(SigningKey.load(file).verifier.text)


@app.command("rotate")
def rotate(
    new: Annotated[
        str, typer.Argument(help="The new key's public half, or the file that `key create` made.")
    ],
    reason: Annotated[
        str, typer.Option(help="Why, for people; kept for ever, 1 to 200 characters.")
    ],
    old: Annotated[
        Path | None, typer.Option(help="File of the key before it, which signs the change.")
    ] = None,
    lost: Annotated[
        str | None,
        typer.Option(help="Public half of the key before it, if its file is lost or was stolen."),
    ] = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Have another key sign the checkpoints of a stopped ledger's log.

    Writes one decision, `key_changed`, on Kafka one into each partition. Signed by the old key,
    auditors who know that one believe the new one. With --lost it is not, and the new key must be
    given to them again; `audit` tells of it for ever.
    """
    from streams.cli.printing.output import write_lines
    from streams.evidence.operator_records import rotate_key

    def tell(partition: int, done: EncodedDecision | None) -> None:
        if json:
            write_lines([] if done is None else [done.value])
        elif done is None:
            say(f"partition {partition}: it has this key, nothing was written")
        else:
            say(f"partition {partition}: decision {done.partition_sequence} names the key")

    if (old is None) == (lost is None):
        fail(Exit.USAGE, "give the key before it", hint="--old FILE, or --lost PUBLIC without it")
    with explained():
        settings = stopped_settings(url)
        public, before, key = _keys(new, old, lost)
        ledger = ""

        async def write(log: StoppedLog) -> EncodedDecision | None:
            nonlocal ledger
            ledger = ledger or await log.ledger_id()
            return await rotate_key(
                log.journal,
                log.genesis,
                log.clock,
                ledger,
                new=public,
                old=before,
                key=key,
                note=reason,
            )

        written = write_records(settings, write, tell)
    if not written:
        fail(Exit.FAILED, "the log has this key: nothing was written")


def _keys(
    new: str, old: Path | None, lost: str | None
) -> tuple[Verifier, Verifier, SigningKey | None]:
    """Return the new key and the one before it, with its secret where that is given."""
    from streams.evidence.keys import SigningKey, Verifier

    public = SigningKey.load(Path(new)).verifier if Path(new).is_file() else Verifier.parse(new)
    key = None if old is None else SigningKey.load(old)
    return public, Verifier.parse(lost or "") if key is None else key.verifier, key
