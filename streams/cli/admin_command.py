"""Common part of the owners' commands: their options, and sending a record and printing it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn, get_type_hints

import typer

from streams.cli.printing.exits import Exit, explain_errors
from streams.cli.printing.print_decision import print_decision
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
Reason = Annotated[str, typer.Option(help="Why, at most 200 characters.")]


class AdminOptions(NamedTuple):
    """The options that every owners' command takes."""

    by: By = None
    reason: Reason = ""
    wait: Wait = 10.0
    url: Url = DEFAULT_URL
    token_file: TokenFile = None
    json: Json = False

    @contextmanager
    def ledger(self, *, replace_ledger: bool = False) -> Iterator[Accountant]:
        """Connect to the ledger, and end the command for an error."""
        with explain_errors():
            made = connect(self.url, self.token_file, wait=self.wait, replace_ledger=replace_ledger)
            with made as ledger:
                yield ledger

    def fields(self, ledger: Accountant) -> dict[str, Any]:
        """Return the arguments of every admin request.

        Without --by, the server fills in the name of the token.
        """
        by = self.by if self.by is not None or ledger.token_source else "owner"
        return {"by": by, "reason": self.reason, "wait": self.wait}

    def send(self, record: Callable[..., Decision]) -> NoReturn:
        """Send an admin request, print the decision, and end the command: 1 if it is refused.

        Args:
            record: sends the request; called with the ledger and the common arguments.
        """
        with self.ledger() as ledger:
            decision = record(ledger, **self.fields(ledger))
            meant = None if self.json else suggest_name(ledger, decision)
            why = "" if self.json else refusal_of(ledger, decision)
        self.end(decision, hint=meant, why=why)

    def end(
        self,
        decision: Decision,
        *,
        hint: str | None = None,
        notes: Iterable[str] = (),
        why: str = "",
    ) -> NoReturn:
        """Print the decision, and end the command: exit code 1 if it is refused.

        Args:
            hint: printed after the decision. `notes`: likewise, to stderr.
            why: the reason of a refusal, if it is known.
        """
        from accountant.records.outcomes import PAUSES, SETS_LIMITS, SETS_MEMBERS, Outcome
        from streams.cli.printing.tables import verdict

        print_decision(decision, as_json=self.json, hint=hint, why=why)
        for note in notes:
            say(f"note: {note}", err=True)
        outcome, _ = verdict(decision)
        done = outcome in {
            *(Outcome.AMENDED, Outcome.CLOSED, Outcome.RESOLVED),
            *(*PAUSES, *SETS_MEMBERS, *SETS_LIMITS),
        }
        raise typer.Exit(Exit.OK if done else Exit.FAILED)


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
        admin = AdminOptions(**{name: values.pop(name) for name in AdminOptions._fields})
        command(**values, admin=admin)

    # typer reads the options from the signature.
    run.__signature__ = signature.replace(parameters=[*listed, *_OTHERS, *rest])  # type: ignore[attr-defined]
    return run
