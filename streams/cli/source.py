"""`accountant source`: checks the sources of questions, where the file of sources is."""

from __future__ import annotations

import typer

from streams.cli.source_check import check
from streams.cli.source_confirm import confirm
from streams.cli.source_schema import schema

app = typer.Typer(
    help="Check and confirm the sources of questions, and begin schemas.", no_args_is_help=True
)

app.command("check")(check)
app.command("confirm")(confirm)
app.command("schema")(schema)
