"""`accountant reservation`: list reservations, and begin, settle and void them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail
from streams.cli.printing.say import say
from streams.cli.reading.options import DEFAULT_URL, RETRY_HELP, Dataset, Json, TokenFile, Url, Wait
from streams.cli.reading.policy_options import check_excluded

if TYPE_CHECKING:
    from pathlib import Path

app = typer.Typer(help="List, begin, settle and void reservations.", no_args_is_help=True)

Grant = Annotated[
    str,
    typer.Argument(
        help="The reservation: the hash of its decision `reserved`, or the hash's first digits, at "
        "least six, as `accountant reservation list` prints them."
    ),
]
OptionalGrant = Annotated[
    str | None,
    typer.Argument(help="As of `accountant reservation begin`."),
]
Analyst = Annotated[
    str | None,
    typer.Option(
        envvar="ACCOUNTANT_ANALYST",
        help="Name of the analyst who reserved. Default with a token: its name.",
    ),
]
Via = Annotated[
    str | None,
    typer.Option(help="Name of the engine that reserved for the analyst, as in its own token."),
]
RequestId = Annotated[
    str | None,
    typer.Option("--id", help=RETRY_HELP),
]


@app.command("list")
def list_(
    dataset: Dataset,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """List a dataset's open reservations, with what they hold; with --json one object a line.

    A server shows all of them to owners, auditors and administrators, and to analysts their own. A
    ledger's file shows all.
    """
    from streams.cli.printing.output import print_list
    from streams.cli.printing.reservations import reservation_table
    from streams.cli.reading.dataset_reader import get_dataset, reader

    with explain_errors(), reader(url, token_file) as ledger:
        get_dataset(ledger, dataset)
        found = ledger.reservations(dataset)
    none = f"{dataset} has no open reservations that you may see"
    print_list(found, lambda: reservation_table(found), none, as_json=json)


@app.command("begin")
def begin(
    dataset: Dataset,
    grant: Grant,
    analyst: Analyst = None,
    via: Via = None,
    request_id: RequestId = None,
    wait: Wait = 10.0,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Begin a reservation: after exit code 0 its mechanism may run, once.

    Exit code 1: refused, nothing may run. 5: a request with this id began it before, so its
    mechanism may have run already.
    """
    _send(
        "begin",
        dataset,
        grant,
        {},
        analyst=analyst,
        via=via,
        request_id=request_id,
        wait=wait,
        url=url,
        token_file=token_file,
        json=json,
    )


@app.command("settle")
def settle(
    dataset: Dataset,
    grant: Grant,
    shown: Annotated[
        str | None,
        typer.Option(
            metavar="LEVEL",
            help="Of a session: the variance or scale of the last answer that was released. "
            "Without it, the whole maximum stays charged.",
        ),
    ] = None,
    analyst: Analyst = None,
    via: Via = None,
    request_id: RequestId = None,
    wait: Wait = 10.0,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Settle what has begun: it is over, and releases nothing more.

    Exit code 1 if it is refused. A level below the claim's least one is refused, and suspends the
    dataset.
    """
    _send(
        "settle",
        dataset,
        grant,
        {} if shown is None else {"shown": shown},
        analyst=analyst,
        via=via,
        request_id=request_id,
        wait=wait,
        url=url,
        token_file=token_file,
        json=json,
    )


@app.command("void")
def void(
    context: typer.Context,
    dataset: Dataset,
    grant: OptionalGrant = None,
    holder: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Instead of GRANT: void all that this analyst or engine holds and that have not "
            "begun.",
        ),
    ] = None,
    analyst: Annotated[
        str | None,
        typer.Option(
            envvar="ACCOUNTANT_ANALYST",
            help="Name of the analyst who reserved, or of an owner. Default with a token: its "
            "name.",
        ),
    ] = None,
    via: Via = None,
    request_id: RequestId = None,
    wait: Wait = 10.0,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Void a reservation that never began: exactly what it was charged comes back.

    With --holder all of one holder, such as of one who fills a dataset's open reservations. Exit
    code 1 if one is refused: what has begun can only be settled.
    """
    if (grant is None) == (holder is None):
        fail(Exit.USAGE, "name one reservation, or a holder", hint="add GRANT, or --holder NAME")
    if holder is not None:
        check_excluded(context, "--holder", ("via", "request_id"), why="it voids several")
        _void_all(
            dataset, holder, analyst=analyst, wait=wait, url=url, token_file=token_file, json=json
        )
    assert grant is not None
    _send(
        "void",
        dataset,
        grant,
        {},
        analyst=analyst,
        via=via,
        request_id=request_id,
        wait=wait,
        url=url,
        token_file=token_file,
        json=json,
    )


def _fail_without_analyst() -> NoReturn:
    fail(
        Exit.USAGE,
        "the request names no analyst",
        hint="add --analyst NAME, or set ACCOUNTANT_ANALYST",
    )


def _void_all(
    dataset: str,
    holder: str,
    *,
    analyst: str | None,
    wait: float,
    url: str,
    token_file: Path | None,
    json: bool,
) -> NoReturn:
    """Void a holder's reservations that have not begun, print each decision, and end the command.

    A second run voids what is left: each is voided once.
    """
    from accountant.records import VERSION, encode
    from accountant.records.outcomes import Outcome
    from streams.cli.printing.command_request import CommandRequest
    from streams.cli.reading.connect import connect
    from streams.cli.reading.dataset_reader import get_dataset

    voided = begun = refused = 0
    with explain_errors(), connect(url, token_file, wait=wait) as ledger:
        name = analyst or (ledger.me().name if ledger.token_source else None)
        if name is None:
            _fail_without_analyst()
        get_dataset(ledger, dataset)
        for each in ledger.reservations(dataset):
            if holder not in {each.analyst, each.via}:
                continue
            if each.state not in {"reserved", "lapsed"}:
                begun += 1
                continue
            again = (
                f"{voided:,} were voided before; run the same command again to void what is left"
            )
            with CommandRequest(None, again=again) as request:
                body = {"version": VERSION, "type": "void", "request_id": str(request.id)}
                body |= {"analyst": name, "dataset": dataset, "grant": each.grant}
                if each.via is not None and name in {each.analyst, each.via}:
                    body |= {"analyst": each.analyst, "via": each.via}
                decision = ledger.submit(encode(body), wait=wait)
                request.print(decision, as_json=json)
            if decision.outcome is Outcome.VOIDED:
                voided += 1
            else:
                refused += 1
    if not json:
        rest = f"; {begun:,} have begun, and can only be settled" if begun else ""
        say(f"{dataset}: {voided:,} reservations of {holder} are voided{rest}")
    raise typer.Exit(Exit.FAILED if refused else Exit.OK)


def _send(
    kind: str,
    dataset: str,
    grant: str,
    fields: dict[str, str],
    *,
    analyst: str | None,
    via: str | None,
    request_id: str | None,
    wait: float,
    url: str,
    token_file: Path | None,
    json: bool,
) -> NoReturn:
    """Send a step, print its decision, and end the command."""
    from accountant.records import VERSION, encode
    from streams.cli.printing.command_request import CommandRequest
    from streams.cli.printing.tables import verdict
    from streams.cli.reading.connect import connect
    from streams.cli.reading.dataset_reader import suggest_name
    from streams.cli.reading.grants import whole_grant

    with explain_errors():
        sending = CommandRequest(request_id)
        with connect(url, token_file, wait=wait) as ledger:
            name = analyst or (ledger.me().name if ledger.token_source and via is None else None)
            if name is None:
                _fail_without_analyst()
            whole = whole_grant(ledger, dataset, grant, caller=name, request_id=request_id)
            with sending as request:
                body = {"version": VERSION, "type": kind, "request_id": str(request.id)}
                body |= {"analyst": name, "dataset": dataset, "grant": whole, **fields}
                body |= {} if via is None else {"via": via}
                decision = ledger.submit(encode(body), wait=wait)
                request.print(decision, as_json=json, hint=lambda: suggest_name(ledger, decision))
    outcome, _ = verdict(decision)
    if not outcome.is_step:
        raise typer.Exit(Exit.FAILED)
    begun_before = kind == "begin" and decision.outcome.is_repeat
    # The retry of this very command is no repeat: nothing has run for it.
    raise typer.Exit(Exit.REPEATED if begun_before and not request.is_new else Exit.OK)
