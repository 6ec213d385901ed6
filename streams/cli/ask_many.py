"""`accountant ask-many`: many requests from a file, one decision a line."""

from __future__ import annotations

import sys
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streams.cli.printing.exits import Exit, check_output_complete, explain_errors
from streams.cli.printing.say import say
from streams.cli.reading.options import DEFAULT_URL, TokenFile, Url

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import BinaryIO

    from accountant.errors import BudgetError
    from streams.client import Reply


def ask_many(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="File of requests, one JSON object a line; `-` for stdin."
        ),
    ],
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for each thousand decisions.")
    ] = 60.0,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
) -> None:
    """Ask for many mechanisms; write one line for each request to stdout, in order.

    Each line of the file has the fields `dataset`, `claim` (text or an object) and `request_id`,
    and may have `analyst`, `purpose`, `unit`, `neighbours` and `via`; or it is a whole request
    record. Each is decided as if sent alone by `accountant ask`. The output has the decision, or
    an object with `error` and `message`. The ids make it safe to run the same file again: nothing
    is charged twice. A summary goes to stderr. Exit code 1 if a request is not granted, 3 if one
    is not answered.
    """
    from accountant.records.inputs import MAX_BYTES
    from streams.cli.printing.output import write_lines
    from streams.cli.reading.connect import connect
    from streams.cli.reading.json_lines import numbered_lines
    from streams.client.requests import BATCH_LINES, Unanswered

    counts: Counter[str] = Counter()
    unanswered = 0
    with (
        explain_errors(),
        _open_input(file) as stream,
        connect(url, token_file, wait=wait) as ledger,
    ):
        lines = (line for _, line in numbered_lines(stream, MAX_BYTES))
        while batch := list(islice(lines, BATCH_LINES)):
            requests = [_request_in(line) for line in batch]
            asked = [each for each in requests if not isinstance(each, Exception)]
            replies = iter(ledger.ask_many(asked, wait=wait))
            found = [each if isinstance(each, Exception) else next(replies) for each in requests]
            write_lines(map(_line_of, found))
            counts.update(map(_kind, found))
            unanswered += sum(isinstance(each, Unanswered) for each in found)
    text = ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items()))
    say(f"{sum(counts.values()):,} requests: {text or 'none'}", err=True)
    check_output_complete()
    if unanswered:
        say("run the same command again: an answered request is not charged again", err=True)
        raise typer.Exit(Exit.UNAVAILABLE)
    if counts.keys() - {"granted"}:
        raise typer.Exit(Exit.FAILED)


def _open_input(file: Path) -> AbstractContextManager[BinaryIO]:
    from contextlib import nullcontext

    return nullcontext(sys.stdin.buffer) if str(file) == "-" else file.open("rb")


def _request_in(line: bytes) -> dict[str, Any] | bytes | BudgetError:
    """Return the request in a line, or what is wrong with the line."""
    import msgspec

    from accountant.errors import RequestInvalid
    from accountant.records.inputs import Undecodable, canonical
    from accountant.records.outcomes import Reason

    try:
        request = msgspec.json.decode(canonical(line))
    except Undecodable as error:
        return error
    except (msgspec.MsgspecError, RecursionError):
        return Undecodable(Reason.UNDECODABLE, "the line must be a JSON object")
    if not isinstance(request, dict):
        return Undecodable(Reason.UNDECODABLE, "the line must be a JSON object")
    if "type" in request:
        return line
    if "request_id" not in request:
        rule = "must be in each line, so that a second run charges nothing; see `accountant id`"
        return RequestInvalid("request_id", rule, None)
    return request


def _kind(found: Reply | BudgetError) -> str:
    return _code(found) if isinstance(found, Exception) else str(found.outcome)


def _code(error: BudgetError) -> str:
    from accountant.errors import RequestInvalid
    from accountant.records.inputs import Undecodable
    from accountant.records.outcomes import Reason
    from streams.client.requests import Unanswered
    from streams.errors import NotPermitted

    if isinstance(error, Undecodable):
        return str(error.reason)
    for kind, code in (
        (RequestInvalid, str(Reason.INVALID_FIELD)),
        (NotPermitted, "not_permitted"),
        (Unanswered, "unanswered"),
    ):
        if isinstance(error, kind):
            return code
    return "refused_by_server"


def _line_of(found: Reply | BudgetError) -> bytes:
    from accountant.foreign_text import escape_json
    from accountant.records import encode
    from accountant.records.http_bodies import served_decision

    if not isinstance(found, Exception):
        return served_decision(encode(found.decision))
    shown = {"error": _code(found), "message": str(found)}
    request_id = getattr(found, "request_id", None)
    return escape_json(encode(shown | ({} if request_id is None else {"request_id": request_id})))
