"""`accountant limit`: limits of teams and analysts on a dataset's budget."""

from __future__ import annotations

from typing import Annotated
from warnings import catch_warnings, simplefilter

import typer

from streams.cli.admin_command import AdminOptions, NewName, admin_command
from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail
from streams.cli.printing.limit_notes import end_notes, limit_notes, note_of_uncounted
from streams.cli.reading.dataset_reader import limits_and_members, limits_are_parts_of
from streams.cli.reading.options import DEFAULT_URL, Dataset, Json, TokenFile, Url, parse_until
from streams.errors import AccountantWarning

app = typer.Typer(help="Divide a dataset's budget by limits.", no_args_is_help=True)

Team = Annotated[str | None, typer.Option(help="Limit this team: its members share the limit.")]
Analyst = Annotated[str | None, typer.Option(help="Limit this one analyst.")]
Each = Annotated[
    str | None,
    typer.Option(
        metavar="TEAM",
        help="Limit each analyst of this team on their own, except those with their own limit.",
    ),
]


@app.command("set")
@admin_command()
def set_(
    dataset: Dataset,
    team: Team = None,
    analyst: Analyst = None,
    each: Each = None,
    part: Annotated[
        str | None,
        typer.Option(help="Allow at most this part of the budget in all, such as 0.25."),
    ] = None,
    epsilon: Annotated[
        str | None,
        typer.Option(help="Instead of --part: a budget in amounts, with --delta and --filter."),
    ] = None,
    delta: Annotated[str | None, typer.Option(help="Delta of the budget in --epsilon.")] = None,
    filter_: Annotated[
        str | None,
        typer.Option("--filter", help="Filter of the budget in --epsilon. Default zcdp_tight."),
    ] = None,
    pace: Annotated[
        str | None,
        typer.Option(help="Allow at most this part of the budget in each period; 0.01 is 1 %."),
    ] = None,
    period: Annotated[str, typer.Option(help="The period of --pace: P1D is a day.")] = "P1D",
    reserved: Annotated[
        str | None,
        typer.Option(help="Reserve this part of the budget: nobody else can use it."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(help="End of the limit: P90D, PT8H, or a day such as 2027-01-01."),
    ] = None,
    new: NewName = False,
    *,
    admin: AdminOptions,
) -> None:
    """Limit how much of a dataset's budget a team or an analyst may use.

    A limit says how much in all (--part or --epsilon), how much in each period (--pace), and how
    much is reserved (--reserved). Where a dataset has a ceiling, these are parts of the ceiling. A
    limit replaces the earlier one of the same team or analyst as a whole. Without --team, --analyst
    and --each, --pace limits everyone together. Usage is counted from the first limit on, and again
    from a change of its filter on: what was used before is not counted. From its end on (--until,
    in UTC) the default of the analyst's team holds in its place, else nothing, and a reserved share
    is free for everybody. A lead sets those of the team's analysts, within the team's own.

    Example: `accountant limit set survey --team blue --part 0.25`. Exit code 1 if it is refused.
    """
    from accountant.display.limits import Whole, ceiling_words

    scope, name = _scope(team, analyst, each)
    own = {"filter": filter_, "epsilon": epsilon, "delta": delta}
    policy = {field: text for field, text in own.items() if text is not None}
    if all(each is None for each in (part, pace, reserved)) and not policy:
        fail(
            Exit.USAGE,
            "the limit is empty: add --part, --epsilon, --pace or --reserved",
            hint="to remove a limit, use `accountant limit remove`",
        )
    if scope == "dataset" and (policy or part is not None or reserved is not None):
        fail(
            Exit.USAGE,
            "the limit names no team and no analyst: the whole dataset takes --pace alone",
            hint="add --team NAME, --analyst NAME or --each TEAM",
        )
    options = {"part": part, **own, "pace": pace, "period": pace and period}
    with admin.ledger() as (ledger, request):
        # The length counts from the id's moment: a retry sends the same bytes.
        over = None if until is None else parse_until(until, request.made_at)
        before = ([], []) if admin.json else limits_and_members(ledger, dataset)
        whole: Whole = "budget" if admin.json else limits_are_parts_of(ledger, dataset)
        with catch_warnings():
            simplefilter("ignore", AccountantWarning)  # the notes below say the same
            decision = admin.owner(ledger, request).set_limit(
                dataset,
                scope,
                name,
                part=part,
                policy=policy or None,
                pace=None if pace is None else (pace, period),
                reserved=reserved,
                until=over,
                new=new,
            )

        def notes() -> list[str]:
            if decision.outcome != "limit_set":
                return []
            found = limit_notes(*before, scope, name, options | {"reserved": reserved})
            found += end_notes(*before, decision.limit)
            view = ledger.dataset(dataset)
            if not policy and (words := ceiling_words(view)):
                found.append(words)
            # Usage under a default of a team is each analyst's own.
            if scope != "each" and (part is not None or policy or pace is not None):
                limits = limits_and_members(ledger, dataset)[0]
                new_one = [level for level in limits if (level.scope, level.name) == (scope, name)]
                found += note_of_uncounted(view, new_one)
            return found

        admin.end(ledger, request, decision, notes=notes, whole=whole)


@app.command("remove")
@admin_command()
def remove(
    dataset: Dataset,
    team: Team = None,
    analyst: Analyst = None,
    each: Each = None,
    *,
    admin: AdminOptions,
) -> None:
    """Remove a limit with its pace and its reserved share; the usage stays counted.

    Exit code 1 if it is refused.
    """
    scope, name = _scope(team, analyst, each)
    admin.send(lambda owner: owner.remove_limit(dataset, scope, name))


@app.command("list")
def list_(
    dataset: Dataset,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """List a dataset's limits, with what is used and left; with --json one object a line.

    A server shows all limits to owners, auditors and administrators, those of the team to its
    lead, and to analysts those that apply to their own requests. A ledger's file shows all.
    """
    from streams.cli.printing.limits import limit_table
    from streams.cli.printing.output import print_list
    from streams.cli.reading.dataset_reader import get_dataset, reader, visible_limits

    with explain_errors(), reader(url, token_file) as ledger:
        view = get_dataset(ledger, dataset)
        found = visible_limits(ledger, dataset)
    none = f"{dataset} has no limits that you may see: everyone who may ask shares the budget"
    print_list(found, lambda: limit_table(found, view), none, as_json=json)


def _scope(team: str | None, analyst: str | None, each: str | None) -> tuple[str, str | None]:
    named = {"team": team, "analyst": analyst, "each": each}
    values = [(scope, name) for scope, name in named.items() if name is not None]
    if len(values) > 1:
        fail(Exit.USAGE, "use one of --team, --analyst and --each, or none for the whole dataset")
    return values[0] if values else ("dataset", None)
