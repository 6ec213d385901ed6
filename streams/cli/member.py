"""`accountant member`: the members of a dataset and their roles."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from accountant.display.teams import notes_of_member, notes_of_pause
from streams.cli.admin_command import AdminOptions, NewName, admin_command
from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail
from streams.cli.reading.dataset_reader import limits_and_members
from streams.cli.reading.options import DEFAULT_URL, Dataset, Json, TokenFile, Url

app = typer.Typer(help="Set and list the members of a dataset.", no_args_is_help=True)

MemberName = Annotated[str, typer.Argument(help="The member's name, as in their token.")]


@app.command("set")
@admin_command(for_administrators=True)
def set_(
    dataset: Dataset,
    member: MemberName,
    role: Annotated[
        list[str],
        typer.Option(
            help="owner, analyst, engine, auditor, curator or lead; repeat it for several."
        ),
    ],
    team: Annotated[str | None, typer.Option(help="The member's team in this dataset.")] = None,
    until: Annotated[
        str | None,
        typer.Option(help="End of the membership: P90D, PT8H, or a day such as 2027-01-01."),
    ] = None,
    new: NewName = False,
    *,
    admin: AdminOptions,
) -> None:
    """Set a member's roles on a dataset; they replace the earlier roles.

    For owners, and with --as-administrator for administrators. A lead (--role lead, with --team)
    adds, changes and removes the analysts of the team alone. Exit code 1 if it is refused.
    """
    from streams.cli.reading.member_file import check_role
    from streams.cli.reading.options import parse_until

    for each in role:
        check_role("--role", each)
    if until is not None and "owner" in role:
        fail(Exit.USAGE, "--until excludes --role owner: an owner does not expire")
    with admin.ledger() as (ledger, request):
        # The length counts from the id's moment: a retry sends the same bytes.
        over = None if until is None else parse_until(until, request.made_at)
        decision = admin.administrator(ledger, request).set_member(
            dataset,
            member,
            roles=list(dict.fromkeys(role)),
            team=team,
            until=over,
            new=new,
        )

        def notes() -> list[str]:
            if decision.member is None or not decision.member.team:
                return []
            known = limits_and_members(ledger, dataset)
            return notes_of_member(*known, dataset, decision.member)

        admin.end(ledger, request, decision, notes=notes)


@app.command("remove")
@admin_command(for_administrators=True)
def remove(
    dataset: Dataset,
    member: MemberName,
    *,
    admin: AdminOptions,
) -> None:
    """Remove a member from a dataset, effective with the next request.

    Exit code 1 if it is refused: the last owner cannot be removed.
    """
    admin.send_as_administrator(lambda caller: caller.remove_member(dataset, member))


PausedPerson = Annotated[
    str | None, typer.Argument(help="The person's name, who need not be a member.")
]
PausedTeam = Annotated[str | None, typer.Option(help="Instead of a name: a whole team.")]


@app.command("pause")
@admin_command(for_administrators=True)
def pause(
    dataset: Dataset,
    name: PausedPerson = None,
    team: PausedTeam = None,
    new: NewName = False,
    *,
    admin: AdminOptions,
) -> None:
    """Pause one person or one team: no request and no begin until they are resumed.

    They still settle, void and read. Roles, limits and history stay. --reason is needed: they read
    it. Exit code 1 if it is refused.
    """
    with admin.ledger() as (ledger, request):
        caller = admin.administrator(ledger, request)
        decision = caller.pause_member(dataset, name, team=team, new=new)

        def notes() -> list[str]:
            if decision.pause is None:
                return []
            return notes_of_pause(limits_and_members(ledger, dataset)[1], dataset, decision.pause)

        admin.end(ledger, request, decision, notes=notes)


@app.command("resume")
@admin_command(for_administrators=True)
def resume(
    dataset: Dataset,
    name: PausedPerson = None,
    team: PausedTeam = None,
    *,
    admin: AdminOptions,
) -> None:
    """End the pause of one person or of one team. A team's pause ends for the team alone.

    Exit code 1 if it is refused, also where they are not paused.
    """
    admin.send_as_administrator(lambda caller: caller.resume_member(dataset, name, team=team))


@app.command("list")
def list_(
    dataset: Dataset,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """List a dataset's members by name, expired ones included, then who is paused.

    A server shows all members to owners, auditors and administrators, those of the team to its
    lead, and others only themselves.
    A ledger's file shows all.
    """
    from rich.markup import escape

    from accountant.display.pauses import person_pause_words
    from streams.cli.printing.members import member_table
    from streams.cli.printing.output import print_json, stdout
    from streams.cli.reading.dataset_reader import get_dataset, reader, visible_members
    from streams.clock import SystemClock

    with explain_errors(), reader(url, token_file) as ledger:
        view = get_dataset(ledger, dataset)
        found = visible_members(ledger, dataset)
    if json:
        for member in found:
            print_json(member)
    else:
        stdout().print(member_table(found, SystemClock().now()))
        for each in view.person_pauses:
            stdout().print(f"paused: {escape(person_pause_words(each))}", soft_wrap=True)


@app.command("sync")
@admin_command(for_administrators=True, sends_many=True)
def sync(
    dataset: Dataset,
    file: Annotated[
        Path,
        typer.Argument(
            help="JSON array of members, or CSV with the columns member,roles,team,until.",
            dir_okay=False,
            exists=True,
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change; write nothing.")
    ] = False,
    new: NewName = False,
    *,
    admin: AdminOptions,
) -> None:
    """Make a dataset's members equal to a file; members that are not in the file are removed.

    A second run changes nothing. Members whose `until` has passed are left out. Exit code 1 at the
    first refusal; run the same command again to continue.
    """
    from streams.cli.member_sync import Sync

    with explain_errors():
        Sync(dataset, file, admin).run(dry_run=dry_run, new=new)
