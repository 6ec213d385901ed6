"""`accountant key`: keys that sign checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail
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
    file: Annotated[Path, typer.Argument(help="New file for the secret key (mode 0600).")],
    name: Annotated[
        str, typer.Option(help="Name of the key for auditors, such as census.example.org.")
    ] = "accountant",
) -> None:
    """Make an Ed25519 key and print the public key. Give the public key to your auditors."""
    from streams.evidence.keys import SigningKey

    with explain_errors():
        say(SigningKey.create(file, name).verifier.text)


@app.command("show")
def show(file: Annotated[Path, typer.Argument(help="A file that `key create` made.")]) -> None:
    """Print the public key of a key file."""
    from streams.evidence.keys import SigningKey

    with explain_errors():
        say(SigningKey.load(file).verifier.text)


@app.command("rotate")
def rotate(
    new: Annotated[
        str, typer.Argument(help="The new public key, or the file that `key create` made.")
    ],
    reason: Annotated[str, typer.Option(help="Why; recorded permanently, 1 to 200 characters.")],
    old: Annotated[
        Path | None, typer.Option(help="File of the old key, which signs the change.")
    ] = None,
    lost: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="The old public key, if its file was lost or stolen."),
    ] = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Change the key that signs the checkpoints of a stopped ledger's log.

    Writes one decision, `key_changed`, on Kafka one into each partition. The old key signs it, so
    auditors who have the old key accept the new one. With --lost the change is unsigned: give the
    new public key to your auditors again. `audit` reports the change permanently.
    """
    from streams.cli.printing.output import write_lines
    from streams.evidence.operator_records import rotate_key

    def report(partition: int, done: EncodedDecision | None) -> None:
        if json:
            write_lines([] if done is None else [done.value])
        elif done is None:
            say(f"partition {partition}: it has this key already, nothing was written")
        else:
            say(f"partition {partition}: decision {done.partition_sequence} names the new key")

    if (old is None) == (lost is None):
        hint = "add --old FILE, or --lost PUBLIC_KEY if that file was lost or stolen"
        fail(Exit.USAGE, "the command needs the old key, by one of two options", hint=hint)
    with explain_errors():
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
                compare=log.compare,
            )

        written = write_records(settings, write, report)
    if not written:
        fail(Exit.FAILED, "the log has this key already: nothing was written")


def _keys(
    new: str, old: Path | None, lost: str | None
) -> tuple[Verifier, Verifier, SigningKey | None]:
    """Return the new key and the old one, with the old secret if it is available."""
    from streams.evidence.keys import SigningKey, Verifier

    public = SigningKey.load(Path(new)).verifier if Path(new).is_file() else Verifier.parse(new)
    key = None if old is None else SigningKey.load(old)
    return public, Verifier.parse(lost or "") if key is None else key.verifier, key
