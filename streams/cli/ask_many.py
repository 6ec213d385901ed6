"""`accountant ask-many`: many requests from a file, one decision a line."""

from __future__ import annotations

import sys
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from accountant.display.numbers import counted
from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import check_output_complete, complain, explain_errors, fail
from streams.cli.printing.safe_streams import output_error
from streams.cli.printing.say import say
from streams.cli.printing.signals import SignalsRaise
from streams.cli.reading.options import DEFAULT_URL, TokenFile, Url

_REFUSED: Final = "refused_by_server"
_AGAIN: Final = "run the same command again: an answered request is not charged again"
_NAMED: Final = 20
"""The most ids that are named before the last one."""

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import BinaryIO, Self

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
    from streams.client.requests.requests import BATCH_LINES, Unanswered
    from streams.ndjson import numbered_lines

    counts: Counter[str] = Counter()
    unanswered, trouble = 0, ""
    with (
        explain_errors(),
        _open_input(file) as stream,
        connect(url, token_file, wait=wait) as ledger,
        _Unprinted() as unprinted,
    ):
        lines = (line for _, line in numbered_lines(stream, MAX_BYTES))
        while batch := list(islice(lines, BATCH_LINES)):
            requests = [_request_in(line) for line in batch]
            asked = [each for each in requests if not isinstance(each, Exception)]
            unprinted.send(map(_id_of, asked))
            replies = iter(ledger.ask_many(asked, wait=wait))
            found = [each if isinstance(each, Exception) else next(replies) for each in requests]
            write_lines(map(_line_of, found))
            unprinted.check_output()
            counts.update(map(_kind, found))
            trouble = trouble or next((str(each) for each in found if _kind(each) == _REFUSED), "")
            unanswered += sum(isinstance(each, Unanswered) for each in found)
    text = ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items()))
    say(f"{counted(sum(counts.values()), 'request')}: {text or 'none'}", err=True)
    check_output_complete()
    if unanswered:
        say(_AGAIN, err=True)
        raise typer.Exit(Exit.UNAVAILABLE)
    if trouble:
        fail(Exit.OPERATOR, trouble)
    if counts.keys() - {"granted"}:
        raise typer.Exit(Exit.FAILED)


class _Unprinted:
    """A context that names the requests whose decisions were not printed when it is left."""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._signals = SignalsRaise()

    def send(self, ids: Iterable[str]) -> None:
        """Remember requests before they are sent."""
        self._ids += ids

    def check_output(self) -> None:
        """Forget the requests, unless output was lost: it is unknown which lines were printed."""
        if output_error() is None:
            self._ids.clear()

    def __enter__(self) -> Self:
        self._signals.__enter__()
        return self

    def __exit__(self, kind: object, error: BaseException | None, at: TracebackType | None) -> None:
        self._signals.hold()
        if self._ids:
            *first, last = self._ids
            named = ", ".join(first[:_NAMED])
            named += "" if not first else " to " if len(first) > _NAMED else " and "
            what = f"{counted(len(self._ids), 'request')} may have been decided and not printed"
            complain(f"{what}: {named}{last}", hint=_AGAIN)
        self._signals.__exit__(kind, error, at)


def _open_input(file: Path) -> AbstractContextManager[BinaryIO]:
    from contextlib import nullcontext

    return nullcontext(sys.stdin.buffer) if str(file) == "-" else file.open("rb")


def _request_in(line: bytes) -> dict[str, Any] | bytes | BudgetError:
    """Return the request in a line, or what is wrong with the line."""
    import msgspec

    from accountant.errors import RequestInvalid
    from accountant.records.inputs import Undecodable, canonical
    from accountant.records.outcomes import Reason
    from accountant.strict_json import read_json

    try:
        request = read_json(canonical(line))
    except Undecodable as error:
        return error
    except msgspec.DecodeError as error:
        return Undecodable(Reason.UNDECODABLE, f"the line must be a JSON object: {error}")
    if not isinstance(request, dict):
        return Undecodable(Reason.UNDECODABLE, "the line must be a JSON object")
    if "type" in request:
        return line
    if "request_id" not in request:
        rule = "must be in each line, so that a second run charges nothing; see `accountant id`"
        return RequestInvalid("request_id", rule, None)
    return request


def _id_of(request: dict[str, Any] | bytes) -> str:
    """Return the id of a request that is sent, whatever it is."""
    import msgspec

    fields = msgspec.json.decode(request) if isinstance(request, bytes) else request
    return str(fields.get("request_id"))


def _kind(found: Reply | BudgetError) -> str:
    return _code(found) if isinstance(found, Exception) else str(found.outcome)


def _code(error: BudgetError) -> str:
    from accountant.errors import RequestInvalid
    from accountant.records.inputs import Undecodable
    from accountant.records.outcomes import Reason
    from streams.client.requests.requests import Unanswered
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
    return _REFUSED


def _line_of(found: Reply | BudgetError) -> bytes:
    from accountant.foreign_text import escape_json
    from accountant.records import encode
    from accountant.records.http_bodies import served_decision

    if not isinstance(found, Exception):
        return served_decision(encode(found.decision))
    shown = {"error": _code(found), "message": str(found)}
    request_id = getattr(found, "request_id", None)
    return escape_json(encode(shown | ({} if request_id is None else {"request_id": request_id})))
