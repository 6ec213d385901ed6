"""`accountant limit`: how a dataset's budget is divided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.printing.exits import Exit, explained, fail
from streams.cli.reading.options import DEFAULT_URL, By, Json, Reason, TokenFile, Url, Wait

if TYPE_CHECKING:
    from accountant.records import Decision

app = typer.Typer(help="Divide a dataset's budget.", no_args_is_help=True)

Dataset = Annotated[str, typer.Argument(help="Name of the dataset.")]
Team = Annotated[str | None, typer.Option(help="Of all of a team together.")]
Analyst = Annotated[str | None, typer.Option(help="Of one analyst.")]
Each = Annotated[
    str | None,
    typer.Option(metavar="TEAM", help="Of each analyst of a team who has no limit of their own."),
]


@app.command("set")
def set_(
    dataset: Dataset,
    team: Team = None,
    analyst: Analyst = None,
    each: Each = None,
    part: Annotated[
        str | None, typer.Option(help="At most this part of the budget, a ratio.")
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="Instead: a budget of its own, with --delta and --filter.")
    ] = None,
    delta: Annotated[str | None, typer.Option(help="Of a budget of its own.")] = None,
    filter_: Annotated[
        str | None, typer.Option("--filter", help="Of a budget of its own; zcdp_tight.")
    ] = None,
    pace: Annotated[
        str | None, typer.Option(help="At most this part of the budget in each period, a ratio.")
    ] = None,
    period: Annotated[str, typer.Option(help="Of --pace: P1D, P30D.")] = "P1D",
    reserved: Annotated[
        str | None, typer.Option(help="A part of the budget that nobody else may use, a ratio.")
    ] = None,
    by: By = None,
    reason: Reason = "",
    wait: Wait = 10.0,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Say how much somebody may use, how fast, and what is kept for them, in place of what was.

    Without --team, --analyst and --each it is the pace of the whole dataset. Exit code 1 if it is
    refused.
    """
    from streams.cli.reading.connected import connected, said_by

    scope, name = _whom(team, analyst, each)
    own = {"filter": filter_, "epsilon": epsilon, "delta": delta}
    policy = {field: text for field, text in own.items() if text is not None}
    if all(given is None for given in (part, pace, reserved)) and not policy:
        fail(
            Exit.USAGE,
            "nothing is limited: give --part, --epsilon, --pace or --reserved",
            hint="`accountant limit remove` lifts a limit",
        )
    with explained(), connected(url, token_file, wait=wait) as ledger:
        decision = ledger.set_limit(
            dataset,
            scope,
            name,
            part=part,
            policy=policy or None,
            pace=None if pace is None else (pace, period),
            reserved=reserved,
            by=said_by(ledger, by),
            reason=reason,
            wait=wait,
        )
    _tell(decision, json)


@app.command("remove")
def remove(
    dataset: Dataset,
    team: Team = None,
    analyst: Analyst = None,
    each: Each = None,
    by: By = None,
    reason: Reason = "",
    wait: Wait = 10.0,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Lift a limit, with its pace and its reserved share; what was used stays counted.

    Exit code 1 if it is refused.
    """
    from streams.cli.reading.connected import connected, said_by

    scope, name = _whom(team, analyst, each)
    with explained(), connected(url, token_file, wait=wait) as ledger:
        by = said_by(ledger, by)
        decision = ledger.set_limit(dataset, scope, name, by=by, reason=reason, wait=wait)
    _tell(decision, json)


@app.command("list")
def list_(
    dataset: Dataset,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """List a dataset's limits, with what is used and left; as JSON, one a line.

    A ledger's file is only read. A door tells owners, auditors and administrators of all, others
    of those that their own requests are checked at.
    """
    from streams.cli.printing.limits import limit_table
    from streams.cli.printing.output import print_json, stdout
    from streams.cli.reading.dataset_reader import fail_unopened, open_views

    with explained(), open_views(url, token_file) as views:
        if views.one(dataset) is None:
            fail_unopened(dataset)
        found = views.levels(dataset)
    if json:
        for level in found:
            print_json(level)
    elif found:
        stdout().print(limit_table(found))
    else:
        typer.echo(f"{dataset} has no limits: everybody draws on the whole budget")


def _whom(team: str | None, analyst: str | None, each: str | None) -> tuple[str, str | None]:
    named = {"team": team, "analyst": analyst, "each": each}
    given = [(scope, name) for scope, name in named.items() if name is not None]
    if len(given) > 1:
        fail(Exit.USAGE, "give one of --team, --analyst and --each, or none for the whole dataset")
    return given[0] if given else ("dataset", None)


def _tell(decision: Decision, json: bool) -> None:
    from accountant.records.outcomes import Outcome
    from streams.cli.printing.print_decision import tell
    from streams.cli.printing.tables import verdict

    tell(decision, as_json=json)
    outcome, _ = verdict(decision)
    done = outcome in {Outcome.LIMIT_SET, Outcome.LIMIT_REMOVED}
    raise typer.Exit(Exit.OK if done else Exit.FAILED)
