"""`accountant more`: ask a dataset's owners for more, and answer what is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from streams.cli.admin_command import AdminOptions, admin_command
from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail
from streams.cli.printing.say import say
from streams.cli.reading.options import DEFAULT_URL, Dataset, Json, TokenFile, Url

if TYPE_CHECKING:
    from accountant.views.asks import AskView
    from streams.client import Accountant

app = typer.Typer(
    help="Ask a dataset's owners for more, and answer what is asked.", no_args_is_help=True
)

AskNumber = Annotated[int, typer.Argument(help="The ask's number: `accountant more list` has it.")]
Part = Annotated[str | None, typer.Option(help="A part of the budget, such as 0.25.")]
Epsilon = Annotated[str | None, typer.Option(help="An amount of epsilon.")]
Rho = Annotated[str | None, typer.Option(help="An amount of rho, where the budget is in rho.")]


@app.command("ask")
@admin_command()
def ask(
    dataset: Dataset,
    wants: Annotated[str, typer.Argument(help="access, limit or budget.")],
    role: Annotated[
        str | None, typer.Option(help="With access: the role, by default analyst.")
    ] = None,
    part: Part = None,
    epsilon: Epsilon = None,
    rho: Rho = None,
    team: Annotated[
        str | None, typer.Option(help="With limit: your own team, whose limit it is.")
    ] = None,
    *,
    admin: AdminOptions,
) -> None:
    """Ask the owners of a dataset for access, a larger limit, or a larger budget.

    Say why by --reason. It stays in the log for ever: owners, auditors and you see it. With
    `limit`, add --part, --epsilon or --rho, and --team for the limit of your team; with `budget`,
    --epsilon or --rho. You have at most 10 open asks in a dataset. Who does not see a dataset may
    ask for access, and gets the same answer whether it exists or not.

    Example: `accountant more ask survey limit --part 0.25 --reason "a second report"`. Exit code 1
    if it is refused.
    """
    from accountant.records.asks import AskKind
    from streams.errors import PassedOnToOwners

    if wants not in get_args(AskKind):
        fail(Exit.USAGE, f"{wants} cannot be asked for: choose access, limit or budget")
    if not admin.reason:
        fail(Exit.USAGE, "owners need to know why: add --reason TEXT")
    with admin.ledger() as (ledger, request):
        try:
            decision = admin.owner(ledger, request).ask_for_more(
                dataset,
                cast("AskKind", wants),
                role=role or ("analyst" if wants == "access" else None),
                part=part,
                epsilon=epsilon,
                rho=rho,
                team=team,
            )
        except PassedOnToOwners as passed_on:
            say(f"{passed_on}.")
            raise typer.Exit(Exit.OK) from None
        admin.end(ledger, request, decision)


@app.command("list")
def list_(
    dataset: Dataset,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """List a dataset's asks for more and their answers, the oldest first.

    A server shows all to owners, auditors and administrators, and others their own. A ledger's file
    shows all.
    """
    from streams.cli.printing.asks import ask_table
    from streams.cli.printing.output import print_list
    from streams.cli.reading.dataset_reader import get_dataset, reader

    with explain_errors(), reader(url, token_file) as ledger:
        get_dataset(ledger, dataset)
        found = ledger.asks(dataset)
    none = f"{dataset} has no asks for more that you may see"
    print_list(found, lambda: ask_table(found), none, as_json=json)


@app.command("accept")
@admin_command()
def accept(
    dataset: Dataset,
    number: AskNumber,
    team: Annotated[str | None, typer.Option(help="Of access: the member's team.")] = None,
    until: Annotated[
        str | None, typer.Option(help="Of access: its end: P90D, or a day such as 2027-01-01.")
    ] = None,
    part: Part = None,
    epsilon: Epsilon = None,
    rho: Rho = None,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            help="Give it although it is a budget below what is spent, or a limit below the one in "
            "force or what is used.",
        ),
    ] = False,
    *,
    admin: AdminOptions,
) -> None:
    """Give what somebody asks for: the role, the limit or the budget in force. Owners only.

    Without options exactly what is asked. Other roles, team and end of a member stay. A limit
    replaces the earlier one of the analyst or team as a whole. The reason of an accepted budget is
    public. Without --yes the command gives no budget below what is spent, and no limit below the
    one in force or what is used: it says so.
    """
    from accountant.display.asks import membership_for, own_budget
    from accountant.policy.in_force import BudgetInForce
    from streams.cli.dataset_budget import ask_back_of_lowering
    from streams.cli.reading.options import parse_until

    with admin.ledger() as (ledger, request):
        found = _find(ledger, dataset, number)
        owner = admin.owner(ledger, request)
        if found.wants == "access":
            over = None if until is None else parse_until(until, request.made_at)
            members, at = ledger.members(dataset), request.made_at
            after = membership_for(found, members, at, team=team, until=over)
            decision = owner.set_member(
                dataset,
                found.by,
                roles=after.roles,
                team=after.team,
                until=after.until,
                answers=number,
            )
        else:
            amounts = {"part": part, "epsilon": epsilon, "rho": rho}
            if all(each is None for each in amounts.values()):
                asked = found.budget
                amounts["part"] = found.part
                amounts["epsilon"] = None if asked is None else asked.epsilon
                amounts["rho"] = None if asked is None else asked.rho
            part = amounts.pop("part")
            if found.wants == "budget":
                if not yes:
                    given = BudgetInForce(epsilon=amounts["epsilon"], rho=amounts["rho"])
                    ask_back_of_lowering(ledger, ledger.dataset(dataset), given)
                decision = owner.set_budget(dataset, **amounts, answers=number)
            else:
                named = {name: text for name, text in amounts.items() if text is not None}
                policy = ledger.dataset(dataset).policy
                decision = owner.set_limit(
                    dataset,
                    *found.scope,
                    part=part,
                    policy=own_budget(policy, named) if named else None,
                    answers=number,
                    new=yes,
                )
        admin.end(ledger, request, decision)


@app.command("decline")
@admin_command()
def decline(dataset: Dataset, number: AskNumber, *, admin: AdminOptions) -> None:
    """Decline what somebody asks for, and say why by --reason. Owners only.

    The person sees the reason. To somebody who does not see the dataset it stays hidden.
    """
    if not admin.reason:
        fail(Exit.USAGE, "the person needs to know why: add --reason TEXT")
    with admin.ledger() as (ledger, request):
        found = _find(ledger, dataset, number)
        owner = admin.owner(ledger, request)
        admin.end(ledger, request, owner.decline(dataset, number, found.by))


def _find(ledger: Accountant, dataset: str, number: int) -> AskView:
    from streams.cli.reading.dataset_reader import get_dataset

    get_dataset(ledger, dataset)
    found = [each for each in ledger.asks(dataset) if each.ask == number]
    if not found:
        fail(
            Exit.FAILED,
            f"dataset {dataset} has no ask {number}",
            hint=f"`accountant more list {dataset}` shows the asks",
        )
    return found[0]
