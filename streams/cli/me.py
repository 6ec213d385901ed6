"""`accountant me`, `mine` and `id`: the caller's name and roles, their budgets, a new id."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.printing.exits import explain_errors
from streams.cli.printing.say import say
from streams.cli.reading.options import DEFAULT_URL, Json, TokenFile, Url

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accountant.views.datasets import DatasetView
    from accountant.views.limit_views import AnalystBudget
    from accountant.views.pending import PendingView
    from streams.cli.reading.analyst_access import AnalystAccess
    from streams.client import Accountant, Me


def me(url: Url = DEFAULT_URL, token_file: TokenFile = None, json: Json = False) -> None:
    """Show who you are signed in as, and your roles on each dataset.

    Exit code 4 if the server requires a token, or rejects this one.
    """
    from msgspec.structs import asdict

    from streams.cli.printing.output import print_json
    from streams.cli.reading.connect import connect

    with explain_errors(), connect(url, token_file) as ledger:
        found, source = ledger.me(), ledger.token_source
    if json:
        datasets = [asdict(each) for each in found.datasets]
        print_json(asdict(found) | {"datasets": datasets, "token_source": source})
    else:
        _show(found, url, source)


def _show(found: Me, url: str, source: str | None) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from accountant.display.reasons import UNNAMED_OWNER
    from accountant.display.times import moment
    from streams.cli.printing.output import stdout

    if found.name is None:
        say(f"you are not signed in: {url} has no authentication, so you have full access")
        return
    kind = {"token": "a token of the server", "oidc": "a token of the identity provider"}.get(
        found.kind or "", "a token"
    )
    administrator = ", administrator" if found.administrator else ""
    say(f"signed in as {found.name}{administrator}, with {kind}, from {source}")
    if not found.datasets:
        say(
            f"you have no role on any dataset: ask {UNNAMED_OWNER} to run `accountant member set "
            f"DATASET {found.name} --role analyst`"
        )
        if not found.administrator:
            say("you may ask datasets with access `anyone`: `accountant dataset list` shows them")
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
        typer.Option(
            envvar="ACCOUNTANT_ANALYST",
            help="Name of the analyst. Default: the token's name. A server shows another name to "
            "owners and auditors of the dataset, and to administrators.",
        ),
    ] = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    json: Json = False,
    unanswered: Annotated[
        bool,
        typer.Option(
            "--unanswered",
            help="Instead, list charged requests without a stored result.",
        ),
    ] = False,
) -> None:
    """Show how much you may still use of each dataset, and which limits apply to you.

    Also when your period limits reset. Owners can look up an analyst with --analyst.

    Example: `accountant mine --analyst ana`. With --json one dataset a line.
    """
    if unanswered:
        _print_open_releases(url, token_file, analyst, json=json)
        return
    from streams.cli.printing.limits import budget_lines
    from streams.cli.printing.output import print_json, stdout
    from streams.cli.reading.analyst_access import read_access
    from streams.cli.reading.dataset_reader import reader, void_datasets
    from streams.clock import SystemClock

    with explain_errors(), reader(url, token_file) as ledger:
        found, is_named = ledger.budgets(analyst), bool(ledger.token_source)
        access = None if json else read_access(ledger, analyst, found, SystemClock().now())
        every = [] if json or not found else ledger.datasets()
        void, waiting = void_datasets(ledger, every), _waiting(ledger, found, every)
    if access is None:
        for budget in found:
            print_json(budget)
        return
    for budget in found:
        obstacle = access.obstacles.get(budget.dataset)
        lines = budget_lines(
            budget,
            caller=access.caller,
            obstacle=obstacle,
            void=void.get(budget.dataset, ""),
            waiting=waiting.get(budget.dataset, ()),
        )
        stdout().print(lines)
    if not found:
        say(_no_budget(access, is_named=is_named))


def _waiting(
    ledger: Accountant, budgets: Sequence[AnalystBudget], every: Sequence[DatasetView]
) -> dict[str, list[PendingView]]:
    """Return an analyst's requests that wait for an approval, by dataset."""
    asks = {view.dataset for view in every if view.policy.approve_above}
    return {
        each.dataset: [one for one in ledger.pending(each.dataset) if one.analyst == each.analyst]
        for each in budgets
        if each.dataset in asks
    }


def _no_budget(access: AnalystAccess, *, is_named: bool) -> str:
    """Return why an analyst has no budget of any dataset, and what to do.

    Args:
        is_named: the caller's token has a name, and so have owners'.
    """
    from accountant.display.current_dataset import by_option
    from accountant.display.reasons import UNNAMED_OWNER

    caller = access.caller or "you"
    if not access.closed:
        name, by = access.caller or "NAME", "" if is_named else by_option(())
        return (
            f"{caller} may ask no dataset: ask {UNNAMED_OWNER} to run `accountant member set "
            f"DATASET {name} --role analyst{by}`"
        )
    names, is_one = ", ".join(access.closed), len(access.closed) == 1
    verb = "is closed and grants" if is_one else "are closed and grant"
    return f"{caller} may ask no open dataset: {names} {verb} nothing more"


def _print_open_releases(
    url: str, token_file: Path | None, analyst: str | None, *, json: bool
) -> None:
    """Print the releases of a ledger that may be charged and have no result in the store."""
    from streams.cli.printing.output import print_json, stdout
    from streams.cli.printing.tables import open_release_table
    from streams.cli.reading.open_releases import open_releases

    with explain_errors():
        found = open_releases(url, token_file, analyst)
    if json:
        for each in found:
            print_json(each)
        return
    if not found:
        say("every charged release has its result")
        return
    stdout().print(open_release_table(found))
    say("next: release again with the same request_id; it is not charged again")


def new() -> None:
    """Print a new request id: a UUIDv7 with this machine's time.

    Make one id for each request, and use the same id for every retry of it.
    """
    from streams.client.requests.requests import new_id
    from streams.clock import SystemClock

    say(new_id(SystemClock()))
