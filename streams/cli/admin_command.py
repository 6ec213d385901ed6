"""Common part of the owners' commands: their options, and sending a record and printing it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, NoReturn, get_type_hints

import typer

from streams.cli.printing.command_request import CommandRequest
from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors
from streams.cli.printing.say import say
from streams.cli.reading.connect import connect
from streams.cli.reading.dataset_reader import limits_and_members, refusal_of, suggest_name
from streams.cli.reading.options import DEFAULT_URL, RETRY_HELP, Json, TokenFile, Url, Wait

if TYPE_CHECKING:
    from accountant.display.limits import Whole
    from accountant.records import Decision
    from streams.client import Accountant, Administrator, AsyncAccountant, Owner

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
NewName = Annotated[
    bool,
    typer.Option(
        "--new",
        help="The name is meant, although it is nearly another team's, or of a limit or a pause "
        "another member's. Without it, that is refused: limits of one do not hold for another.",
    ),
]
Reason = Annotated[str, typer.Option(help="Why, at most 200 characters.")]
RequestId = Annotated[
    str | None,
    typer.Option("--id", help=RETRY_HELP),
]


class AdminOptions(NamedTuple):
    """The options of owners' commands; `as_administrator` is of those of administrators, too."""

    by: By = None
    as_administrator: AsAdministrator = False
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

    def name(self, ledger: Accountant | AsyncAccountant) -> str | None:
        """Return the caller's name; None for the name in the token."""
        return self.by if self.by is not None or ledger.token_source else "owner"

    def terms(self, request_id: str) -> dict[str, Any]:
        """Return the arguments of `as_owner` and `as_administrator` in addition to the name."""
        return {"reason": self.reason, "request_id": request_id, "wait": self.wait}

    def owner(
        self, ledger: Accountant, request: CommandRequest, *, follows: int | None = None
    ) -> Owner:
        """Return the calls of the owner who runs the command."""
        return ledger.as_owner(self.name(ledger), follows=follows, **self.terms(request.id))

    def administrator(self, ledger: Accountant, request: CommandRequest) -> Administrator:
        """Return those of the administrator, or without --as-administrator of the owner."""
        if not self.as_administrator:
            return self.owner(ledger, request)
        return ledger.as_administrator(self.name(ledger), **self.terms(request.id))

    def send(
        self,
        call: Callable[[Owner], Decision],
        *,
        follows: int | None = None,
        notes: Callable[[Accountant, str, Decision], Iterable[str]] | None = None,
    ) -> NoReturn:
        """Send an owner's request, print the decision, and end the command: 1 if it is refused.

        Args:
            notes: returns what is printed after it, of the dataset with a name.
        """
        with self.ledger() as (ledger, request):
            decision = call(self.owner(ledger, request, follows=follows))
            said = notes and partial(notes, ledger, str(decision.dataset), decision)
            self.end(ledger, request, decision, notes=said)

    def send_as_administrator(self, call: Callable[[Administrator], Decision]) -> NoReturn:
        """Do the same for a command with --as-administrator."""
        with self.ledger() as (ledger, request):
            self.end(ledger, request, call(self.administrator(ledger, request)))

    def end(
        self,
        ledger: Accountant,
        request: CommandRequest,
        decision: Decision,
        *,
        notes: Callable[[], Iterable[str]] | None = None,
        whole: Whole = "budget",
    ) -> NoReturn:
        """Print the decision, and end the command: exit code 1 if it is refused.

        A request that an owner denies is refused to its analyst; the owner's command has done it.
        What explains it is asked after it is printed.

        Args:
            notes: returns what is printed after it, to stderr.
            whole: what the dataset's limits are parts of.
        """
        from accountant.display.approvals import denial_words
        from accountant.records.outcomes import Reason
        from streams.cli.printing.tables import verdict

        request.print(
            decision,
            as_json=self.json,
            why=lambda: (
                denial_words(decision)
                or self._without_name(ledger, decision)
                or refusal_of(ledger, decision)
            ),
            hint=lambda: suggest_name(ledger, decision),
            whole=whole,
        )
        if notes is not None and not self.json:
            for note in notes():
                say(f"note: {note}", err=True)
        outcome, reason = verdict(decision)
        is_done = outcome.is_applied or reason is Reason.DENIED
        raise typer.Exit(Exit.OK if is_done else Exit.FAILED)

    def _without_name(self, ledger: Accountant, decision: Decision) -> str:
        """Return what to do where only a missing name is refused, else ""."""
        from accountant.display.current_dataset import by_option, owner_words
        from accountant.records.outcomes import Reason

        if decision.reason is not Reason.NOT_PERMITTED or self.by or ledger.token_source:
            return ""
        members = limits_and_members(ledger, str(decision.dataset))[1]
        return (
            f"You gave no name, and this is for owners of dataset {decision.dataset}. Add "
            f"`{by_option(members).strip()}`, the name of {owner_words(members)}."
        )


_OPTIONS: Final = [
    inspect.Parameter(
        name,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=AdminOptions._field_defaults[name],
        annotation=annotation,
    )
    for name, annotation in get_type_hints(AdminOptions, include_extras=True).items()
]


def admin_command(
    *, for_administrators: bool = False, sends_many: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that replaces a command's parameter `admin` by its options.

    Args:
        for_administrators: the command has --as-administrator.
        sends_many: it sends several requests, and so has no --id.
    """
    absent = {"as_administrator": not for_administrators, "request_id": sends_many}
    options = [each for each in _OPTIONS if not absent.get(each.name)]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [each.replace(kind=each.POSITIONAL_OR_KEYWORD) for each in _named(signature)]
        rest = [p for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD]

        @wraps(command)
        def run(**values: Any) -> None:
            admin = AdminOptions(**{each.name: values.pop(each.name) for each in options})
            command(**values, admin=admin)

        # typer reads the options from the signature.
        run.__signature__ = signature.replace(parameters=[*own, *options, *rest])  # type: ignore[attr-defined]
        return run

    return decorate


def _named(signature: inspect.Signature) -> list[inspect.Parameter]:
    every = signature.parameters.values()
    return [p for p in every if p.kind is not p.VAR_KEYWORD and p.name != "admin"]
