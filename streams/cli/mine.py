"""`accountant mine`: what is left for the one who asks."""

from __future__ import annotations

from typing import Annotated

import typer

from streams.cli.printing.exits import explained
from streams.cli.reading.options import DEFAULT_URL, Json, TokenFile, Url


def mine(
    analyst: Annotated[
        str | None,
        typer.Option(envvar="ACCOUNTANT_ANALYST", help="Whose; with a token by default its name."),
    ] = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Show what you may still use of each dataset, under which limits, and when more comes.

    As JSON, one dataset a line. A door answers for the name that the token stands for.
    """
    from streams.cli.printing.limits import budget_lines
    from streams.cli.printing.output import print_json, stdout
    from streams.cli.reading.dataset_reader import open_views

    with explained(), open_views(url, token_file) as views:
        found = views.budgets(analyst)
    if json:
        for budget in found:
            print_json(budget)
        return
    for budget in found:
        stdout().print(budget_lines(budget))
    if not found:
        typer.echo(
            "no dataset lets you ask: an owner makes you a member, by `accountant member set`"
        )
