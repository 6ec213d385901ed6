"""The table of the root's commands: a command's module is imported when the command is chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple, cast

import typer
from typer.core import TyperCommand, TyperGroup

from streams.cli.metavars import set_metavars
from streams.cli.printing.typed_names import remember_contexts

MARKUP: Final = "markdown"
_USE, _OFFLINE, _RUN = "Use a ledger", "Work on files", "Run a ledger"


class CommandEntry(NamedTuple):
    """Where a command is, and what the root's help says of it.

    Attributes:
        place: its module and its name there; a group is the module's `app`.
        panel: the part of the root's help that lists it.
        line: the first paragraph of its own help.
    """

    place: str
    panel: str
    line: str


TABLE: Final = {
    "login": CommandEntry(
        "login.login", _USE, "Sign in to a server with your account at its identity provider."
    ),
    "logout": CommandEntry(
        "login.logout",
        _USE,
        "Sign out of a server: delete its stored token, and revoke it at the provider.",
    ),
    "me": CommandEntry(
        "me.me", _USE, "Show who you are signed in as, and your roles on each dataset."
    ),
    "mine": CommandEntry(
        "me.mine",
        _USE,
        "Show how much you may still use of each dataset, and which limits apply to you.",
    ),
    "ask": CommandEntry(
        "ask.ask",
        _USE,
        "Ask whether a mechanism may run once on a dataset; or ask a question on its data.",
    ),
    "ask-many": CommandEntry(
        "ask_many.ask_many",
        _USE,
        "Ask for many mechanisms; write one line for each request to stdout, in order.",
    ),
    "answers": CommandEntry(
        "answers.answers",
        _USE,
        "List the latest answers to a dataset's questions; with --json as they are stored, one a "
        "line.",
    ),
    "usage": CommandEntry(
        "usage.usage", _USE, "Show the usage of a dataset, from its first request on."
    ),
    "report": CommandEntry(
        "report.report",
        _USE,
        "Show what was asked, granted and spent on a dataset in a period, by month.",
    ),
    "why": CommandEntry(
        "why.why", _USE, "Show what used a dataset's budget, and how much longer it lasts."
    ),
    "watch": CommandEntry(
        "watch.watch",
        _USE,
        "Show a live table of every dataset: spent and left, odometers, grants and refusals.",
    ),
    "audit": CommandEntry(
        "audit.audit", _USE, "Verify a whole decision log, from its first record."
    ),
    "evidence": CommandEntry(
        "evidence.evidence",
        _USE,
        "Write the evidence of a ledger into a new folder, whole or not at all.",
    ),
    "head": CommandEntry(
        "head.head",
        _USE,
        "Print the ledger's id, and the number and hash of each partition's last decision.",
    ),
    "fits": CommandEntry(
        "fits.fits",
        _OFFLINE,
        "Print how many requests of a claim fit a budget; nothing is sent or written.",
    ),
    "plan": CommandEntry(
        "plan.plan",
        _OFFLINE,
        "Print mechanisms that keep an error, their claims and costs, and how many fit a budget.",
    ),
    "compare": CommandEntry(
        "compare.compare",
        _OFFLINE,
        "Decide requests from stdin under a policy and under each of its alternatives.",
    ),
    "id": CommandEntry(
        "me.new", _OFFLINE, "Print a new request id: a UUIDv7 with this machine's time."
    ),
    "decide": CommandEntry(
        "decide.decide",
        _OFFLINE,
        "Decide requests from stdin, one JSON object a line; write the decision log to stdout.",
    ),
    "demo": CommandEntry(
        "demo.command.demo",
        _RUN,
        "Replay a week of five analysts' requests on three datasets, then audit the log.",
    ),
    "serve": CommandEntry(
        "serve.serve", _RUN, "Run a ledger in a file, and serve HTTP until SIGTERM or SIGINT."
    ),
    "gateway": CommandEntry(
        "gateway.gateway", _RUN, "Serve HTTP for a ledger on Kafka until SIGTERM or SIGINT."
    ),
    "worker": CommandEntry("worker.worker", _RUN, "Run a worker on Kafka until SIGTERM or SIGINT."),
    "curator": CommandEntry(
        "curator.curator",
        _RUN,
        "Answer the questions of a ledger on Kafka until SIGTERM or SIGINT.",
    ),
    "ready": CommandEntry(
        "ready.ready",
        _RUN,
        "Show whether a server is ready, and if not, each reason with its next step.",
    ),
    "accept-answers": CommandEntry(
        "accept_answers.accept_answers",
        _RUN,
        "Accept the store of answers of a stopped ledger as all the answers there are.",
    ),
    "accept-rollback": CommandEntry(
        "accept_rollback.accept_rollback",
        _RUN,
        "Continue a stopped ledger whose log has lost decisions that a checkpoint proves.",
    ),
    "dataset": CommandEntry("dataset.app", _USE, "Open, change, show and list datasets."),
    "member": CommandEntry("member.app", _USE, "Set and list the members of a dataset."),
    "limit": CommandEntry("limit.app", _USE, "Divide a dataset's budget by limits."),
    "approval": CommandEntry("approval.app", _USE, "List, approve and deny requests that wait."),
    "more": CommandEntry(
        "more.app", _USE, "Ask a dataset's owners for more, and answer what is asked."
    ),
    "reservation": CommandEntry(
        "reservation.app", _USE, "List, begin, settle and void reservations."
    ),
    "question": CommandEntry("question.app", _USE, "List and end the questions that wait."),
    "source": CommandEntry(
        "source.app", _OFFLINE, "Check and confirm the sources of questions, and begin schemas."
    ),
    "log": CommandEntry("log.app", _USE, "Read the decision log, archive or restore it."),
    "topics": CommandEntry(
        "topics.app", _RUN, "Create, check and repair the topics of a ledger on Kafka."
    ),
    "key": CommandEntry("key.app", _RUN, "Keys that sign checkpoints of a log."),
    "token": CommandEntry("token.app", _RUN, "Create, list and revoke tokens of a server."),
    "clock": CommandEntry("clock.app", _RUN, "Repair a log after the machine's clock was wrong."),
}
"""The commands, in the order of the root's help."""


@cache
def _import(name: str) -> Any:
    """Import a command's module, and return the command with its options."""
    entry = TABLE[name]
    module, _, attribute = entry.place.rpartition(".")
    found = getattr(import_module(f"streams.cli.{module}"), attribute)
    alone = typer.Typer(rich_markup_mode=MARKUP, callback=lambda: None)
    if isinstance(found, typer.Typer):
        alone.add_typer(found, name=name, rich_help_panel=entry.panel)
    else:
        alone.command(name, rich_help_panel=entry.panel)(found)
    command = cast("TyperGroup", typer.main.get_command(alone)).commands[name]
    set_metavars(command)
    remember_contexts(command)
    return command


class _Commands(Mapping[str, Any]):
    """The commands by name; each is imported when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        if name not in TABLE:
            raise KeyError(name)
        return _import(name)

    def __iter__(self) -> Iterator[str]:
        return iter(TABLE)

    def __len__(self) -> int:
        return len(TABLE)

    def __contains__(self, name: object) -> bool:
        return name in TABLE


class TableGroup(TyperGroup):
    """The group of the table's commands. Help and completion print the table's lines."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = _Commands()  # type: ignore[assignment]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return what help and completion print of a command, without its module."""
        entry = TABLE.get(cmd_name)
        if entry is None:
            return None
        return TyperCommand(cmd_name, help=entry.line, rich_help_panel=entry.panel)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments choose, imported."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else self.commands[name], rest
