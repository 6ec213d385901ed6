"""`accountant key`: keys that sign checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streams.cli.printing.exits import explained

app = typer.Typer(help="Keys that sign checkpoints of a log.", no_args_is_help=True)


@app.command("create")
def create(
    file: Annotated[Path, typer.Argument(help="Where to keep the secret: mode 0600.")],
    name: Annotated[
        str, typer.Option(help="What auditors know the key by, such as census.example.org.")
    ] = "accountant",
) -> None:
    """Make an Ed25519 key, and print its public half: give that to whoever audits."""
    from streams.checkpoints.keys import SigningKey

    with explained():
        typer.echo(SigningKey.create(file, name).verifier.text)


@app.command("show")
def show(file: Annotated[Path, typer.Argument(help="A file that `key create` made.")]) -> None:
    """Print the public half of a key."""
    from streams.checkpoints.keys import SigningKey

    with explained():
        typer.echo(SigningKey.load(file).verifier.text)
