"""`accountant me`: as whom the ledger's door knows the one who asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.cli.printing.exits import explained
from streams.cli.printing.say import say
from streams.cli.reading.options import DEFAULT_URL, Json, TokenFile, Url

if TYPE_CHECKING:
    from streams.client import Me


def me(url: Url = DEFAULT_URL, token_file: TokenFile = None, json: Json = False) -> None:
    """Show the name that your token stands for, and what it may do on which dataset.

    Exit code 4 where the door wants a token, or does not know this one.
    """
    from streams.cli.printing.output import print_json
    from streams.cli.reading.connected import connected

    with explained(), connected(url, token_file) as ledger:
        found = ledger.me()
    if json:
        print_json(found)
    else:
        _show(found, url)


def _show(found: Me, url: str) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from streams.cli.printing.output import stdout

    if found.name is None:
        say(f"nobody is known at {url}: there is no authentication there")
        return
    kind = {"token": "a token of the door", "oidc": "a token of the provider"}.get(
        found.kind or "", "a token"
    )
    administrator = ", administrator" if found.administrator else ""
    say(f"{found.name}{administrator}, by {kind}")
    if not found.datasets:
        say("no roles on any dataset: an owner gives them, by `accountant member set`")
        if not found.administrator:
            say("where anyone may ask, so may you: `accountant dataset list` shows those")
        return
    table = Table(header_style="bold", box=SIMPLE_HEAD)
    for column in ("dataset", "roles", "team", "until"):
        table.add_column(column, overflow="fold")
    for each in found.datasets:
        table.add_row(each.dataset, ", ".join(each.roles), each.team or "", each.until or "")
    stdout().print(table)
