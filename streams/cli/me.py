"""`accountant me`, `mine` and `new-id`: who the caller is, what the caller may use, a new id."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.printing.exits import explained
from streams.cli.printing.say import say
from streams.cli.reading.options import DEFAULT_URL, Json, TokenFile, Url

if TYPE_CHECKING:
    from streams.client import Me


def me(url: Url = DEFAULT_URL, token_file: TokenFile = None, json: Json = False) -> None:
    """Show the name that your token stands for, and what it may do on which dataset.

    Exit code 4 where the door wants a token, or does not know this one.
    """
    from msgspec.structs import asdict

    from streams.cli.printing.output import print_json
    from streams.cli.reading.connected import connected

    with explained(), connected(url, token_file) as ledger:
        found = ledger.me()
    if json:
        datasets = [asdict(each) for each in found.datasets]
        print_json(asdict(found) | {"datasets": datasets})
    else:
        _show(found, url)


def _show(found: Me, url: str) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from accountant.display.times import moment
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
        table.add_row(each.dataset, ", ".join(each.roles), each.team or "", moment(each.until))
    stdout().print(table)


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
    from streams.cli.reading.dataset_reader import reader

    with explained(), reader(url, token_file) as ledger:
        found = ledger.budgets(analyst)
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
    from streams.cli.printing.tables import unanswered_table
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


def new() -> None:
    """Print a new request id: a UUIDv7 with this machine's time.

    Make it once for a request, and send the same one with every retry.
    """
    from streams.client.requests import new_id
    from streams.clock import SystemClock

    say(new_id(SystemClock()))
