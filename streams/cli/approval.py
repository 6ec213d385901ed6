"""`accountant approval`: list the requests that wait, and approve or deny them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final

import typer

from streams.cli.admin_command import AdminOptions, admin_command
from streams.cli.printing.exits import explain_errors
from streams.cli.printing.say import say
from streams.cli.reading.options import DEFAULT_URL, Dataset, Json, TokenFile, Url

if TYPE_CHECKING:
    from accountant.advice.preview import Preview
    from accountant.records import Decision
    from accountant.views.pending import PendingView
    from streams.client import Accountant, Owner

app = typer.Typer(help="List, approve and deny requests that wait.", no_args_is_help=True)

_MOST_PREVIEWS: Final = 20

Pending = Annotated[
    str,
    typer.Argument(
        metavar="PENDING",
        help="The request: the hash of its decision `pending`, or the hash's first digits, at "
        "least six, as `accountant approval list` prints them.",
    ),
]


@app.command("list")
def list_(
    dataset: Dataset,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """List a dataset's requests that wait for approval; with --json one object a line.

    A server shows all of them to owners, auditors and administrators, and to analysts their own. A
    ledger's file shows all.
    """
    from streams.cli.printing.approvals import pending_table
    from streams.cli.printing.output import print_list
    from streams.cli.reading.dataset_reader import get_dataset, reader

    with explain_errors(), reader(url, token_file) as ledger:
        view = get_dataset(ledger, dataset)
        found = ledger.pending(dataset)
        previews = {} if json else _previews(ledger, found)
    none = f"no request on {dataset} that you may see waits for an approval"
    print_list(found, lambda: pending_table(found, view, previews), none, as_json=json)
    if found and view.closed and not json:
        say(f"note: {dataset} is closed, so none of them can be approved: deny them", err=True)


def _previews(ledger: Accountant, found: Iterable[PendingView]) -> dict[str, Preview]:
    """Return what would be decided now on the first claims that wait, by their hashes."""
    from accountant.errors import BudgetError

    previews: dict[str, Preview] = {}
    with suppress(BudgetError):
        for each in islice(found, _MOST_PREVIEWS):
            if each.claim is not None:
                previews[each.pending] = ledger.cost(
                    each.dataset, each.claim, analyst=each.analyst, via=each.via
                )
    return previews


@app.command("approve")
@admin_command()
def approve(name: Dataset, pending: Pending, *, admin: AdminOptions) -> None:
    """Approve a request that waits: the decision is its grant. Owners only, of others' requests.

    It is decided as if it were sent now. What does not fit now is refused, and waits on. Decide by
    public facts and by what was released: an approval that follows from the data reveals it.
    """
    _answer(admin, name, pending, lambda owner, whole: owner.approve(name, whole))


@app.command("deny")
@admin_command()
def deny(name: Dataset, pending: Pending, *, admin: AdminOptions) -> None:
    """Deny a request that waits; the analyst sees the --reason. Owners only.

    Nothing is charged. Decide by public facts and by what was released: a denial that follows from
    the data reveals it.
    """
    _answer(admin, name, pending, lambda owner, whole: owner.deny(name, whole))


def _answer(
    admin: AdminOptions, dataset: str, pending: str, send: Callable[[Owner, str], Decision]
) -> None:
    """Send an owner's answer to the request that these digits name, and end the command."""
    from streams.cli.reading.grants import whole_pending

    with admin.ledger() as (ledger, request):
        caller = admin.name(ledger) or ledger.me().name or ""
        whole = whole_pending(ledger, dataset, pending, caller=caller, request_id=admin.request_id)
        admin.end(ledger, request, send(admin.owner(ledger, request), whole))
