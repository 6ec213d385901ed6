"""`accountant dataset remark`, `record` and `releases`: what happened outside of the ledger."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated

import typer

from streams.cli.admin_command import AdminOptions, NewName, admin_command
from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import ask_back, explain_errors, fail
from streams.cli.printing.say import say
from streams.cli.reading.options import DEFAULT_URL, Json, TokenFile, Url

Name = Annotated[str, typer.Argument(help="Name of the dataset.")]


@admin_command()
def remark(
    name: Name,
    decision: Annotated[
        int,
        typer.Argument(
            help="The decision's number in the dataset: `accountant ask` prints it beside the id."
        ),
    ],
    text: Annotated[str, typer.Argument(help="What you say of it, 1 to 200 characters.")],
    yes: Annotated[
        bool, typer.Option("--yes", help="Say it at once. Without it, nothing is said.")
    ] = False,
    *,
    admin: AdminOptions,
) -> None:
    """Say something public about a decision, such as that a grant never ran. Owners only.

    Nothing is charged or returned. Everybody who may see the dataset sees the text, for ever: write
    nothing about a person. A closed dataset takes it, too. Without --yes the command shows the
    decision, and says nothing of it.
    """
    from accountant.display.one_way_choices import remarking_words
    from streams.cli.reading.dataset_reader import find_dataset, find_decision

    with admin.ledger() as (ledger, request):
        if not yes and find_dataset(ledger, name) is not None:
            found = find_decision(ledger, name, decision)
            ask_back(remarking_words(name, decision, found))
        owner = admin.owner(ledger, request)
        admin.end(ledger, request, owner.remark(name, decision, text))


@admin_command()
def record(
    name: Name,
    claim: Annotated[
        str,
        typer.Argument(help="What was released, such as pure:0.1; several are one all_of."),
    ],
    at: Annotated[
        str, typer.Option("--at", help="When: a day, or a time with a zone, such as 2026-11-21.")
    ],
    evidence: Annotated[
        str, typer.Option(help="What says so, 1 to 200 characters, public for ever.")
    ],
    document: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A document that says so: its SHA-256 is sent, the file is not."
        ),
    ] = None,
    team: Annotated[
        str | None, typer.Option(help="The team that released it: its limits count it.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Charge it at once. Without it, nothing is charged.")
    ] = False,
    new: NewName = False,
    *,
    admin: AdminOptions,
) -> None:
    """Charge a release that was made about the data elsewhere, without a request. Owners only.

    Nothing that has happened is refused by a cap, a limit, a pause or a suspension. If it fits the
    budget, the guarantee holds if its size was bounded before anything was released; if not, there
    is no guarantee any more, for ever. Reserved shares that it leaves no room for are cut, the
    newest first.

    Its texts stay public for ever, for everybody who may see the dataset: write nothing about a
    person. No later record takes them back. Without --yes the command says what it would charge,
    and charges nothing.
    """
    from accountant.claims.text import parse_claim
    from accountant.display.outside import (
        lasting_charge_words,
        recorded_notes,
        recording_notes,
    )
    from accountant.display.teams import notes_of_limit
    from accountant.records.coerce import coerce_until
    from streams.cli.reading.dataset_reader import (
        find_dataset,
        limits_and_members,
        with_joint_guarantee,
    )

    evidence_hash = None if document is None else _hash_of(document)
    with admin.ledger() as (ledger, request):
        view = None if yes else find_dataset(ledger, name)
        if view is not None:
            view = with_joint_guarantee(view, ledger)
            limits, members = limits_and_members(ledger, name)
            cuts = any(each.reserved for each in limits)
            released = coerce_until(at, field="released_at")
            notes = recording_notes(view, parse_claim(claim), released, cuts=cuts)
            for words in [*notes, *(notes_of_limit(members, team) if team else [])]:
                say(f"note: {words}", err=True)
            ask_back(lasting_charge_words(claim, name, team))
        owner = admin.owner(ledger, request)
        decision = owner.record(
            name,
            claim,
            released_at=at,
            evidence=evidence,
            team=team,
            evidence_hash=evidence_hash,
            new=new,
        )
        admin.end(ledger, request, decision, notes=lambda: recorded_notes(decision))


def releases(
    name: Name, url: Url = DEFAULT_URL, token_file: TokenFile = None, json: Json = False
) -> None:
    """List the releases made elsewhere that owners have recorded, the oldest first.

    Whoever sees the dataset sees them. It reads every decision of the dataset.
    """
    from accountant.display.outside import release_of, statement_words
    from streams.cli.printing.output import print_json, stdout
    from streams.cli.reading.dataset_reader import get_dataset, reader

    with explain_errors(), reader(url, token_file) as ledger:
        get_dataset(ledger, name)
        decisions = ledger.requests(name)
        found = [(each, release) for each in decisions if (release := release_of(each)) is not None]
    for decision, release in found:
        if json:
            print_json(release._asdict())
        else:
            stdout().print(statement_words(decision), soft_wrap=True, markup=False)
    if not found and not json:
        say(f"{name} has no releases made elsewhere")


def _hash_of(document: Path) -> str:
    try:
        return f"sha256:{hashlib.sha256(document.read_bytes()).hexdigest()}"
    except OSError as error:
        fail(Exit.USAGE, f"{document} cannot be read: {error.strerror}")
