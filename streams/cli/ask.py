"""`accountant ask`: one request, one decision."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from streams.cli.printing.exits import Exit, explain_errors, fail, fail_unanswered, fail_word
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
    from accountant.views.limit_views import LevelView
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
            help="Name of the analyst, recorded permanently. Default with a token: its name.",
        ),
    ] = None,
    via: Annotated[
        str | None,
        typer.Option(
            help="Name of the engine that sends the request for the analyst, as in its own token."
        ),
    ] = None,
    unit: UnitOption = None,
    neighbours: NeighboursOption = None,
    purpose: Annotated[
        str, typer.Option(help="What the result is for, at most 200 characters.")
    ] = "",
    request_id: Annotated[
        str | None, typer.Option("--id", help="Id (UUIDv7) of an earlier attempt, to retry it.")
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show what the decision would be; nothing is recorded."),
    ] = False,
    wait: Wait = 10.0,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Ask whether a mechanism may run once on a dataset.

    Exit code 0: granted. 1: refused; a refusal costs nothing and shows what would fit. 5: this id
    was granted before, so the mechanism must not run again. A dry run grants nothing: it ends with
    6 if the request would be granted, with 1 if not.
    """
    from accountant.claims.text import parse_claim
    from streams.cli.printing.print_decision import print_decision
    from streams.cli.reading.connect import connect
    from streams.cli.reading.dataset_reader import suggest_instead
    from streams.client import Unanswered
    from streams.client.requests import new_id
    from streams.clock import SystemClock

    with explain_errors():
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
        with connect(url, token_file, wait=wait) as ledger:
            if analyst is None and not ledger.shows_token:
                _fail_without_analyst(ledger)
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
                # The request may still be decided. Only the same id is safe to send again.
                again = f"run the same command with --id {sent_id}; it is never charged twice"
                fail_unanswered(error.why, again=again)
            then = None if json else _then(ledger, dataset, wanted, analyst, reply.decision)
            meant = None if json else suggest_instead(ledger, reply.decision)
    # With the words of the limits and of the policy; the suggestion of a similar name comes apart.
    compared = reply.decision.level is not None or reply.decision.reason == "unit_mismatch"
    why = reply.why if compared else ""
    print_decision(reply.decision, as_json=json, why=why, then=then, hint=meant)
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
    """Print what the decision would be, and end the command."""
    from accountant.display.other_filter import other_filter_words
    from streams.cli.printing.dry_run import print_preview
    from streams.cli.printing.say import say
    from streams.cli.reading.dataset_reader import get_dataset, reader

    with reader(url, token_file) as ledger:
        view = get_dataset(ledger, dataset)
        matters = via is not None or view.policy.access == "members"
        if analyst is None and matters and not ledger.shows_token:
            _fail_without_analyst(ledger)
        shown = ledger.cost(
            dataset, claim, analyst=analyst, unit=unit, neighbours=neighbours, via=via
        )
        levels = () if json or not shown.left_at else _levels(ledger, dataset, analyst)
    print_preview(shown, view.budget, levels, as_json=json)
    if not json and (hint := other_filter_words(shown, view.policy, claim)):
        say(f"  next  {hint}")
    raise typer.Exit(Exit.WOULD_GRANT if shown.granted else Exit.FAILED)


def _levels(ledger: Accountant, dataset: str, analyst: str | None) -> Sequence[LevelView]:
    """Return the limits of an analyst, none if they cannot be read."""
    from accountant.errors import BudgetError

    with suppress(BudgetError):
        return ledger.budget(dataset, analyst).levels
    return ()


def _fail_without_analyst(ledger: Accountant) -> NoReturn:
    """End the command: for a missing token if the server requires one, else for the name."""
    from accountant.errors import BudgetError
    from streams.errors import Unauthenticated

    try:
        ledger.me()
    except Unauthenticated:
        raise
    except BudgetError:  # the ledger cannot be read: only the name is known to be missing
        pass
    fail(
        Exit.USAGE,
        "the request names no analyst",
        hint="add --analyst NAME, or set ACCOUNTANT_ANALYST",
    )


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
    except BudgetError:  # the grant is printed even if this second read fails
        return None
    if not shown.granted:
        return more_words(0)
    return more_words(None if shown.more is None else shown.more + 1)
