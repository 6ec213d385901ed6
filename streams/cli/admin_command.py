"""What every command of an owner does: take the same options, connect, send a record, print it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn, get_type_hints

import typer

from streams.cli.printing.exits import Exit, explained
from streams.cli.printing.print_decision import tell
from streams.cli.reading.connected import connected
from streams.cli.reading.options import DEFAULT_URL, Json, TokenFile, Url, Wait

if TYPE_CHECKING:
    from accountant.records import Decision
    from streams.client import Accountant

By = Annotated[
    str | None,
    typer.Option(
        envvar="ACCOUNTANT_OWNER",
        help="Who you are; with a token by default its name, else `owner`, which nobody verifies.",
    ),
]
Reason = Annotated[str, typer.Option(help="For people, at most 200 characters.")]


class AdminOptions(NamedTuple):
    """The options of an owner's command, as they were typed."""

    by: By = None
    reason: Reason = ""
    wait: Wait = 10.0
    url: Url = DEFAULT_URL
    token_file: TokenFile = None
    json: Json = False

    @contextmanager
    def ledger(self) -> Iterator[Accountant]:
        """Connect to the ledger, and end the command for an error."""
        with explained(), connected(self.url, self.token_file, wait=self.wait) as ledger:
            yield ledger

    def fields(self, ledger: Accountant) -> dict[str, Any]:
        """Return the arguments that every record of an owner takes.

        Without --by, the server names the owner where the client sends a token.
        """
        by = self.by if self.by is not None or ledger.shows_token else "owner"
        return {"by": by, "reason": self.reason, "wait": self.wait}

    def send(self, record: Callable[..., Decision]) -> NoReturn:
        """Send a record, print what it came to, and end the command: exit code 1 if it is refused.

        Args:
            record: sends it, called with the ledger and the arguments of every record.
        """
        with self.ledger() as ledger:
            decision = record(ledger, **self.fields(ledger))
        self.end(decision)

    def end(self, decision: Decision) -> NoReturn:
        """Print what a record came to, and end the command: exit code 1 if it is refused."""
        from accountant.records.outcomes import SETS_LIMITS, SETS_MEMBERS, Outcome
        from streams.cli.printing.tables import verdict

        tell(decision, as_json=self.json)
        outcome, _ = verdict(decision)
        done = outcome in {Outcome.AMENDED, Outcome.CLOSED, *SETS_MEMBERS, *SETS_LIMITS}
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
    """Give a command the options of `AdminOptions` in place of its parameter `admin`.

    In its help, parameters that follow `admin` stand between --by and the others.
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
    def run(**given: Any) -> None:
        admin = AdminOptions(**{name: given.pop(name) for name in AdminOptions._fields})
        command(**given, admin=admin)

    # What typer makes the options from.
    run.__signature__ = signature.replace(parameters=[*listed, *_OTHERS, *rest])  # type: ignore[attr-defined]
    return run
