"""`accountant mine`: what is left for the one who asks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streams.cli.printing.exits import explained
from streams.cli.printing.say import say
from streams.cli.reading.options import DEFAULT_URL, Json, TokenFile, Url


def mine(
    analyst: Annotated[
        str | None,
        typer.Option(envvar="ACCOUNTANT_ANALYST", help="Whose; with a token by default its name."),
    ] = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    json: Json = False,
    unanswered: Annotated[
        bool,
        typer.Option(
            "--unanswered", help="Instead, the releases that are charged and have no answer here."
        ),
    ] = False,
) -> None:
    """Show what you may still use of each dataset, under which limits, and when more comes.

    As JSON, one dataset a line. A door answers for the name that the token stands for.
    """
    if unanswered:
        _tell_unanswered(url, token_file, analyst, json=json)
        return
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
        say("no dataset lets you ask: an owner makes you a member, by `accountant member set`")


def _tell_unanswered(url: str, token_file: Path | None, analyst: str | None, *, json: bool) -> None:
    """Print the releases of a ledger that may be charged and have no answer in the store."""
    from streams.cli.printing.output import print_json, stdout
    from streams.cli.printing.unanswered import unanswered_table
    from streams.cli.reading.unanswered import unanswered_releases

    with explained():
        found = unanswered_releases(url, token_file, analyst)
    if json:
        for each in found:
            print_json(each)
        return
    if not found:
        say("every release that was charged has its answer")
        return
    stdout().print(unanswered_table(found))
    say("release again with its request_id: that is not charged again")
