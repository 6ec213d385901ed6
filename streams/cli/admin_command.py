"""Common part of the owners' commands: their options, and sending a record and printing it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn, get_type_hints

import typer

from streams.cli.printing.command_request import CommandRequest
from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors
from streams.cli.printing.say import say
from streams.cli.reading.connect import connect
from streams.cli.reading.dataset_reader import refusal_of, suggest_name
from streams.cli.reading.options import DEFAULT_URL, Json, TokenFile, Url, Wait

if TYPE_CHECKING:
    from accountant.records import Decision
    from streams.client import Accountant

By = Annotated[
    str | None,
    typer.Option(
        envvar="ACCOUNTANT_OWNER",
        help="Your name. Default: the token's name; without a token `owner`, which nobody "
        "verifies.",
    ),
]
AsAdministrator = Annotated[
    bool,
    typer.Option(
        "--as-administrator",
        help="Act as administrator, not as owner; recorded permanently.",
    ),
]
NewTeam = Annotated[
    bool,
    typer.Option(
        "--new",
        help="The team is meant, although its name is nearly another one's. Without it, that is "
        "refused: limits of one team do not hold for another.",
    ),
]
Reason = Annotated[str, typer.Option(help="Why, at most 200 characters.")]
RequestId = Annotated[
    str | None,
    typer.Option("--id", help="Id (UUIDv7) of an earlier attempt, to retry it."),
]


class AdminOptions(NamedTuple):
    """The options that every owners' command takes."""

    by: By = None
    reason: Reason = ""
    request_id: RequestId = None
    wait: Wait = 10.0
    url: Url = DEFAULT_URL
    token_file: TokenFile = None
    json: Json = False

    @contextmanager
    def ledger(
        self, *, replace_ledger: bool = False
    ) -> Iterator[tuple[Accountant, CommandRequest]]:
        """Connect to the ledger, and end the command for an error.

        Within the block the request is sent and `end` is called: each exit names its id.
        """
        with explain_errors():
            sending = CommandRequest(self.request_id)
            made = connect(self.url, self.token_file, wait=self.wait, replace_ledger=replace_ledger)
            with made as ledger, sending as request:
                yield ledger, request

    def fields(self, ledger: Accountant, request: CommandRequest) -> dict[str, Any]:
        """Return the arguments of every admin request.

        Without --by, the server fills in the name of the token.
        """
        by = self.by if self.by is not None or ledger.token_source else "owner"
        return {"by": by, "reason": self.reason, "request_id": request.id, "wait": self.wait}

    def send(self, record: Callable[..., Decision]) -> NoReturn:
        """Send an admin request, print the decision, and end the command: 1 if it is refused.

        Args:
            record: sends the request; called with the ledger and the common arguments.
        """
        with self.ledger() as (ledger, request):
            decision = record(ledger, **self.fields(ledger, request))
            self.end(ledger, request, decision)

    def end(
        self,
        ledger: Accountant,
        request: CommandRequest,
        decision: Decision,
        *,
        notes: Callable[[], Iterable[str]] | None = None,
    ) -> NoReturn:
        """Print the decision, and end the command: exit code 1 if it is refused.

        What explains it is asked after it is printed.

        Args:
            notes: returns what is printed after it, to stderr.
        """
        from streams.cli.printing.tables import verdict

        request.print(
            decision,
            as_json=self.json,
            why=lambda: refusal_of(ledger, decision),
            hint=lambda: suggest_name(ledger, decision),
        )
        if notes is not None and not self.json:
            for note in notes():
                say(f"note: {note}", err=True)
        outcome, _ = verdict(decision)
        raise typer.Exit(Exit.OK if outcome.is_applied else Exit.FAILED)


_BY, *_OTHERS = [
    inspect.Parameter(
        name,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=AdminOptions._field_defaults[name],
        annotation=annotation,
    )
    for name, annotation in get_type_hints(AdminOptions, include_extras=True).items()
]


def admin_command(command: Callable[..., None]) -> Callable[..., None]:
    """Replace a command's parameter `admin` by the options of `AdminOptions`.

    In its help, parameters after `admin` come between --by and the others.
    """
    return _with_options(command, _OTHERS)


def admin_command_of_many(command: Callable[..., None]) -> Callable[..., None]:
    """Do the same for a command that sends several requests, and so has no --id."""
    return _with_options(command, [each for each in _OTHERS if each.name != "request_id"])


def _with_options(
    command: Callable[..., None], others: list[inspect.Parameter]
) -> Callable[..., None]:
    signature = inspect.signature(command, eval_str=True)
    own = signature.parameters.values()
    listed = [
        _BY if p.name == "admin" else p.replace(kind=p.POSITIONAL_OR_KEYWORD)
        for p in own
        if p.kind is not p.VAR_KEYWORD
    ]
    rest = [p for p in own if p.kind is p.VAR_KEYWORD]

    @wraps(command)
    def run(**values: Any) -> None:
        names = [each.name for each in (_BY, *others)]
        admin = AdminOptions(**{name: values.pop(name) for name in names})
        command(**values, admin=admin)

    # typer reads the options from the signature.
    run.__signature__ = signature.replace(parameters=[*listed, *others, *rest])  # type: ignore[attr-defined]
    return run
