"""`accountant ask`: one request, one decision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from streams.cli.printing.exits import Exit, explained, fail_unanswered, fail_word
from streams.cli.reading.options import DEFAULT_URL, Json, NeighboursOption, UnitOption, Url, Wait

if TYPE_CHECKING:
    from accountant.policy import Neighbours


def ask(
    dataset: Annotated[str, typer.Argument(help="Name of the dataset.")],
    claim: Annotated[
        str, typer.Argument(help="As in pure:0.01 or gaussian:sigma=20,sensitivity=1.")
    ],
    analyst: Annotated[
        str,
        typer.Option(envvar="ACCOUNTANT_ANALYST", help="Opaque id of who asks; kept for ever."),
    ],
    unit: UnitOption = None,
    neighbours: NeighboursOption = None,
    purpose: Annotated[str, typer.Option(help="For people, at most 200 characters.")] = "",
    request_id: Annotated[
        str | None, typer.Option("--id", help="UUIDv7 of an earlier attempt, to retry it.")
    ] = None,
    wait: Wait = 10.0,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Ask whether a mechanism may run once on a dataset.

    Exit code 0 if granted, 1 if not. A refusal costs nothing and says what would fit. An id that
    was granted before is exit code 5: the mechanism does not run a second time for it.
    """
    from accountant.claims.text import parse_claim
    from streams.cli.printing.print_decision import tell
    from streams.client import Accountant, Unanswered
    from streams.client.requests import new_id
    from streams.clock import SystemClock

    with explained():
        wanted = parse_claim(claim)
        known = ("add_remove", "replace")
        if neighbours is not None and neighbours not in known:
            fail_word("--neighbours", "must be add_remove or replace", neighbours, known)
        sent_id = request_id or new_id(SystemClock())
        with Accountant(url, wait=wait) as ledger:
            try:
                reply = ledger.ask(
                    dataset,
                    wanted,
                    analyst=analyst,
                    unit=unit,
                    neighbours=cast("Neighbours | None", neighbours),
                    purpose=purpose,
                    request_id=sent_id,
                    wait=wait,
                )
            except Unanswered as error:
                # Whether it will be decided is unknown: only the same id is safe to send.
                again = f"the same command with --id {sent_id}; it is never charged twice"
                fail_unanswered(error.why, again=again)
    tell(reply.decision, as_json=json)
    if reply.repeated and reply.first is not None and reply.first.granted:
        raise typer.Exit(Exit.REPEATED)
    raise typer.Exit(Exit.OK if reply.granted else Exit.FAILED)
