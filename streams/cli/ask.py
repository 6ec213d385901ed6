"""`accountant ask`: one request, one decision."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from streams.cli.printing.exits import Exit, explained, fail, fail_unanswered, fail_word
from streams.cli.reading.options import (
    DEFAULT_URL,
    Json,
    NeighboursOption,
    TokenFile,
    UnitOption,
    Url,
    Wait,
)

if TYPE_CHECKING:
    from typing import NoReturn

    from accountant.claims import Claim
    from accountant.policy import Neighbours
    from accountant.records import Decision
    from streams.client import Accountant


def ask(
    dataset: Annotated[str, typer.Argument(help="Name of the dataset.")],
    claim: Annotated[
        str, typer.Argument(help="As in pure:0.01 or gaussian:sigma=20,sensitivity=1.")
    ],
    analyst: Annotated[
        str | None,
        typer.Option(
            envvar="ACCOUNTANT_ANALYST",
            help="Opaque id of who asks, kept for ever; with a token by default its name.",
        ),
    ] = None,
    via: Annotated[
        str | None,
        typer.Option(help="The engine that asks for the analyst: the name of its own token."),
    ] = None,
    unit: UnitOption = None,
    neighbours: NeighboursOption = None,
    purpose: Annotated[str, typer.Option(help="For people, at most 200 characters.")] = "",
    request_id: Annotated[
        str | None, typer.Option("--id", help="UUIDv7 of an earlier attempt, to retry it.")
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show what it would be told; ask and write nothing."),
    ] = False,
    wait: Wait = 10.0,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Ask whether a mechanism may run once on a dataset.

    Exit code 0 if granted, 1 if not. A refusal costs nothing and says what would fit. An id that
    was granted before is exit code 5: the mechanism does not run a second time for it. A
    dry run grants nothing and is never exit code 0: 6 if it would be granted, 1 if not.
    """
    from accountant.claims.text import parse_claim
    from streams.cli.printing.print_decision import tell
    from streams.cli.reading.connected import connected
    from streams.client import Unanswered
    from streams.client.requests import new_id
    from streams.clock import SystemClock

    with explained():
        wanted = parse_claim(claim)
        known = ("add_remove", "replace")
        if neighbours is not None and neighbours not in known:
            fail_word("--neighbours", "must be add_remove or replace", neighbours, known)
        if dry_run:
            if request_id is not None:
                fail(Exit.USAGE, "--dry-run excludes --id: it sends nothing")
            _dry_run(
                dataset,
                wanted,
                analyst,
                unit,
                cast("Neighbours | None", neighbours),
                via,
                url,
                token_file,
                json,
            )
        sent_id = request_id or new_id(SystemClock())
        with connected(url, token_file, wait=wait) as ledger:
            if analyst is None and not ledger.shows_token:
                fail(Exit.USAGE, "who asks?", hint="--analyst NAME, or ACCOUNTANT_ANALYST")
            try:
                reply = ledger.ask(
                    dataset,
                    wanted,
                    analyst=analyst,
                    unit=unit,
                    neighbours=cast("Neighbours | None", neighbours),
                    purpose=purpose,
                    request_id=sent_id,
                    via=via,
                    wait=wait,
                )
            except Unanswered as error:
                # Whether it will be decided is unknown: only the same id is safe to send.
                again = f"the same command with --id {sent_id}; it is never charged twice"
                fail_unanswered(error.why, again=again)
            then = None if json else _then(ledger, dataset, wanted, analyst, reply.decision)
    tell(reply.decision, as_json=json, then=then)
    if reply.repeated and reply.first is not None and reply.first.granted:
        raise typer.Exit(Exit.REPEATED)
    raise typer.Exit(Exit.OK if reply.granted else Exit.FAILED)


def _dry_run(
    dataset: str,
    claim: Claim,
    analyst: str | None,
    unit: str | None,
    neighbours: Neighbours | None,
    via: str | None,
    url: str,
    token_file: Path | None,
    json: bool,
) -> NoReturn:
    """Print what a request would be told, and end the command."""
    from streams.cli.printing.dry_run import tell_preview
    from streams.cli.reading.dataset_reader import existing, reader

    with reader(url, token_file) as ledger:
        policy = existing(ledger, dataset).policy
        matters = via is not None or policy.access == "members"
        if analyst is None and matters and not ledger.shows_token:
            fail(Exit.USAGE, "who asks?", hint="--analyst NAME, or ACCOUNTANT_ANALYST")
        shown = ledger.cost(
            dataset, claim, analyst=analyst, unit=unit, neighbours=neighbours, via=via
        )
    tell_preview(shown, as_json=json)
    raise typer.Exit(Exit.WOULD_GRANT if shown.granted else Exit.FAILED)


def _then(
    ledger: Accountant, dataset: str, claim: Claim, analyst: str | None, decision: Decision
) -> str | None:
    """Return how many more like a grant would be granted, None where that is not known."""
    from accountant.display.datasets import more_words
    from accountant.errors import BudgetError
    from streams.cli.printing.tables import request_of

    if not decision.granted:
        return None
    asked = request_of(decision)
    try:
        shown = ledger.cost(
            dataset,
            claim,
            analyst=analyst,
            unit=asked["unit"],
            neighbours=asked["neighbours"],
        )
    except BudgetError:  # the grant is to be told whatever becomes of this look
        return None
    if not shown.granted:
        return more_words(0)
    return more_words(None if shown.more is None else shown.more + 1)
