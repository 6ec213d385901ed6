"""`accountant limit`: how a dataset's budget is divided."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.admin_command import AdminOptions, admin_command
from streams.cli.printing.exits import Exit, explained, fail
from streams.cli.printing.say import say
from streams.cli.reading.options import DEFAULT_URL, Json, TokenFile, Url

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from accountant.records.members import Member
    from accountant.views.limit_views import LevelView
    from streams.client import Accountant

app = typer.Typer(help="Divide a dataset's budget.", no_args_is_help=True)

Dataset = Annotated[str, typer.Argument(help="Name of the dataset.")]
Team = Annotated[str | None, typer.Option(help="Of all of a team together.")]
Analyst = Annotated[str | None, typer.Option(help="Of one analyst.")]
Each = Annotated[
    str | None,
    typer.Option(metavar="TEAM", help="Of each analyst of a team who has no limit of their own."),
]


@app.command("set")
@admin_command
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
    *,
    admin: AdminOptions,
) -> None:
    """Say how much somebody may use, how fast, and what is kept for them, in place of what was.

    Without --team, --analyst and --each it is the pace of the whole dataset. Exit code 1 if it is
    refused.
    """
    scope, name = _whom(team, analyst, each)
    own = {"filter": filter_, "epsilon": epsilon, "delta": delta}
    policy = {field: text for field, text in own.items() if text is not None}
    if all(given is None for given in (part, pace, reserved)) and not policy:
        fail(
            Exit.USAGE,
            "nothing is limited: give --part, --epsilon, --pace or --reserved",
            hint="`accountant limit remove` lifts a limit",
        )
    with admin.ledger() as ledger:
        standing = ([], []) if admin.json else _standing(ledger, dataset)
        decision = ledger.set_limit(
            dataset,
            scope,
            name,
            part=part,
            policy=policy or None,
            pace=None if pace is None else (pace, period),
            reserved=reserved,
            **admin.fields(ledger),
        )
    if decision.outcome == "limit_set":
        given = {"part": part or policy, "pace": pace, "reserved": reserved}
        for note in _notes(*standing, scope, name, given):
            say(f"note: {note}", err=True)
    admin.end(decision)


@app.command("remove")
@admin_command
def remove(
    dataset: Dataset,
    team: Team = None,
    analyst: Analyst = None,
    each: Each = None,
    *,
    admin: AdminOptions,
) -> None:
    """Lift a limit, with its pace and its reserved share; what was used stays counted.

    Exit code 1 if it is refused.
    """
    scope, name = _whom(team, analyst, each)
    admin.send(lambda ledger, **more: ledger.set_limit(dataset, scope, name, **more))


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
    from streams.cli.reading.dataset_reader import existing, limits_shown, reader

    with explained(), reader(url, token_file) as ledger:
        existing(ledger, dataset)
        found = limits_shown(ledger, dataset)
    if json:
        for level in found:
            print_json(level)
    elif found:
        stdout().print(limit_table(found))
    else:
        say(f"{dataset} has no limits that you may see: what is left of it is for all")


def _standing(ledger: Accountant, dataset: str) -> tuple[list[LevelView], list[Member]]:
    """Return the limits and members, to warn of a slip; none where they cannot be read."""
    from accountant.errors import BudgetError

    with suppress(BudgetError):
        return ledger.limits(dataset), ledger.members(dataset)
    return [], []


def _notes(
    limits: Iterable[LevelView],
    members: Sequence[Member],
    scope: str,
    name: str | None,
    given: Mapping[str, object],
) -> list[str]:
    """Return what a new limit takes away, and that nobody has its name: it may be a slip.

    Args:
        limits, members: before it.
        given: what it says, by the names of the options.
    """
    notes = []
    before: dict[tuple[str, str | None], LevelView] = {
        (each.scope, each.name): each for each in limits
    }
    if (was := before.get((scope, name))) is not None:
        had = {"part": was.part or was.policy, "pace": was.pace, "reserved": was.reserved}
        lost = [f"--{what}" for what, it in had.items() if it is not None and not given[what]]
        if lost:
            notes.append(f"it had {' and '.join(lost)} before, which this lifts: give all at once")
    teams = {each.member: each.team for each in members}
    if scope == "analyst" and members:
        if name not in teams:
            notes.append(f"{name} is no member yet")
        elif ("each", teams[name]) in before:
            notes.append(f"the default of team {teams[name]} holds no more for {name}")
    elif scope != "dataset" and members and name not in teams.values():
        known = ", ".join(sorted({team for team in teams.values() if team})) or "none"
        notes.append(f"nobody is in team {name} yet; teams there are: {known}")
    return notes


def _whom(team: str | None, analyst: str | None, each: str | None) -> tuple[str, str | None]:
    named = {"team": team, "analyst": analyst, "each": each}
    given = [(scope, name) for scope, name in named.items() if name is not None]
    if len(given) > 1:
        fail(Exit.USAGE, "give one of --team, --analyst and --each, or none for the whole dataset")
    return given[0] if given else ("dataset", None)
