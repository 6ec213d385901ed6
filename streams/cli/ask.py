"""`accountant ask`: one request, one decision."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail, fail_word
from streams.cli.reading.options import (
    DEFAULT_URL,
    RETRY_HELP,
    Json,
    NeighboursOption,
    TokenFile,
    UnitOption,
    Url,
    Wait,
)

if TYPE_CHECKING:
    from typing import NoReturn

    from accountant.advice.preview import Preview
    from accountant.claims import Claim
    from accountant.policy import Neighbours
    from accountant.records import Decision
    from accountant.views.datasets import DatasetView
    from streams.client import Accountant


def ask(
    dataset: Annotated[str, typer.Argument(help="Name of the dataset.")],
    claim: Annotated[
        str,
        typer.Argument(
            help="A claim, as in pure:0.01 or gaussian:sigma=20,sensitivity=1; or a question, as "
            "in 'count where age > 65', with one of --epsilon, --rho, --sigma and "
            "--error."
        ),
    ],
    epsilon: Annotated[
        str | None,
        typer.Option(help="Of a question: what the answer may cost, with Laplace noise."),
    ] = None,
    rho: Annotated[
        str | None,
        typer.Option(help="Of a question: what the answer may cost, with Gaussian noise."),
    ] = None,
    sigma: Annotated[
        str | None,
        typer.Option(help="Of a question: standard deviation of each number's noise."),
    ] = None,
    error: Annotated[
        str | None,
        typer.Option(
            help="Of a question: the error of each number, as in '50 at 0.95'.",
            metavar="ERROR[ at CONFIDENCE]",
        ),
    ] = None,
    relative_error: Annotated[
        str | None,
        typer.Option(
            "--relative-error",
            help="Ask accuracy first: stop where each number is within this part of its value, as "
            "in '0.1 at 0.95'. --epsilon, --rho, --sigma or --error then sets the most that it may "
            "cost.",
            metavar="PART[ at CONFIDENCE]",
        ),
    ] = None,
    law: Annotated[
        str | None, typer.Option(help="Of a question: the law of the noise, if not the default.")
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(help="Of several statistics: how they divide the amount, as in '1 2 1'."),
    ] = None,
    guess: Annotated[
        int | None,
        typer.Option(
            help="Of a question, with --dry-run: how many rows each group may have, by which the "
            "error of a mean, a variance or a standard deviation is shown."
        ),
    ] = None,
    once: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Of a question: a name of the answer. The same command again prints the same "
            "answer, and is charged once.",
        ),
    ] = None,
    others: Annotated[
        list[str] | None,
        typer.Option(
            "--other",
            help="Another dataset that the mechanism reads, charged the same; repeat for several.",
            metavar="DATASET",
        ),
    ] = None,
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
    request_id: Annotated[str | None, typer.Option("--id", help=RETRY_HELP)] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show what the decision would be; nothing is recorded."),
    ] = False,
    wait: Wait = 10.0,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Ask whether a mechanism may run once on a dataset; or ask a question on its data.

    A question is answered with noise by the server that reads the data: the command prints the
    answer with its interval and cost.

    With --other the request is over several datasets: all of them are charged in full, or none.
    Exit code 0: granted. 1: refused; a refusal costs nothing and shows what would fit. 5: this id
    was granted before: the mechanism must not run again if it has run. 7: it waits for an owner's
    approval, and the same command with the id (--id) ends with 5 once it is granted. A dry run
    grants nothing: it ends with 6 if the request would be granted, with 7 if it would wait, with 1
    if not.
    """
    from accountant.claims.text import parse_claim_on
    from streams.cli.ask_question import WantedQuestion, ask_question
    from streams.cli.printing.command_request import CHARGED_ONCE, CommandRequest
    from streams.cli.printing.say import say
    from streams.cli.reading.analysts import fail_without_analyst
    from streams.cli.reading.connect import connect
    from streams.cli.reading.dataset_reader import first_refusal, warn_if_void

    question = WantedQuestion(
        dataset, claim, epsilon, rho, sigma, error, relative_error, law, weights, guess, once
    )
    if question.is_one:
        if others or unit is not None or neighbours is not None:
            rule = "--other, --unit and --neighbours are left out of a question"
            fail(Exit.USAGE, rule, hint="the dataset's schema and policy decide them")
        ask_question(
            question,
            analyst=analyst,
            via=via,
            purpose=purpose,
            request_id=request_id,
            dry_run=dry_run,
            wait=wait,
            url=url,
            token_file=token_file,
            json=json,
        )
    with explain_errors():
        wanted = parse_claim_on(dataset, claim)
        known = ("add_remove", "replace")
        if neighbours is not None and neighbours not in known:
            fail_word("--neighbours", "must be add_remove or replace", neighbours, known)
        if dry_run:
            if request_id is not None:
                fail(Exit.USAGE, "--dry-run excludes --id: it sends nothing")
            if others:
                fail(Exit.USAGE, "--dry-run excludes --other", hint="run it on each dataset")
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
        sending = CommandRequest(request_id, promise=CHARGED_ONCE)
        with connect(url, token_file, wait=wait) as ledger:
            if analyst is None and not ledger.token_source:
                fail_without_analyst(ledger)
            with sending as request:
                reply = ledger.ask(
                    [dataset, *others] if others else dataset,
                    wanted,
                    analyst=analyst,
                    unit=unit,
                    neighbours=cast("Neighbours | None", neighbours),
                    purpose=purpose,
                    request_id=request.id,
                    via=via,
                    wait=wait,
                )
                why = reply.why.removesuffix(reply.hint).rstrip()  # the hint has its own line
                shown = [reply.whole] if json else reply.parts if reply.granted else ()
                only = not json and not others
                for decision in shown or [reply.decision]:
                    if decision.part_of is not None:
                        say(f"{decision.dataset}:")
                    request.print(
                        decision,
                        as_json=json,
                        why=lambda: why or first_refusal(ledger, reply.decision, analyst),
                        then=(lambda: _then(ledger, dataset, wanted, analyst, reply.decision))
                        if only
                        else None,
                        hint=lambda: reply.hint or None,
                        waiting=reply.waiting,
                    )
                    if not json:
                        warn_if_void(ledger, decision)
    if reply.repeated and reply.first is not None and reply.first.granted:
        raise typer.Exit(Exit.REPEATED)
    if reply.waits:
        raise typer.Exit(Exit.PENDING)
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
    from streams.cli.printing.dry_run import dry_run

    def cost(ledger: Accountant) -> Preview:
        return ledger.cost(
            dataset, claim, analyst=analyst, unit=unit, neighbours=neighbours, via=via
        )

    def hint(shown: Preview, view: DatasetView) -> str | None:
        words = other_filter_words(shown, view.policy, claim)
        return f"  next  {words}" if words else None

    dry_run(
        dataset,
        cost,
        hint,
        claim=claim,
        analyst=analyst,
        via=via,
        url=url,
        token_file=token_file,
        json=json,
    )


def _then(
    ledger: Accountant, dataset: str, claim: Claim, analyst: str | None, decision: Decision
) -> str | None:
    """Return how many more like a grant would be granted, None where that is not known."""
    from streams.cli.printing.dry_run import more_after_grant
    from streams.cli.printing.tables import request_of

    if not decision.granted:
        return None
    asked = request_of(decision)
    unit, neighbours = asked["unit"], asked["neighbours"]
    return more_after_grant(
        lambda: ledger.cost(dataset, claim, analyst=analyst, unit=unit, neighbours=neighbours)
    )
