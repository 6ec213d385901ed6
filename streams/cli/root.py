"""The command's root: its help, its version, and where each group of commands is."""

from __future__ import annotations

import os
from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from streams.cli import (
    accept_answers,
    accept_rollback,
    answers,
    ask,
    ask_many,
    audit,
    clock,
    compare,
    curator,
    dataset,
    decide,
    fits,
    gateway,
    head,
    key,
    limit,
    log,
    login,
    me,
    member,
    plan,
    question,
    ready,
    reservation,
    serve,
    source,
    token,
    topics,
    usage,
    watch,
    why,
    worker,
)
from streams.cli.demo import command as demo
from streams.cli.printing.exits import complain, escape_usage_errors, explain_errors
from streams.cli.printing.safe_streams import output_error, reader_is_gone, replace_streams
from streams.cli.printing.say import say
from streams.variables import in_upper_case

_SERVERS = frozenset({"serve", "gateway", "worker", "curator"})
_HELP = """Keep the privacy budgets of datasets, and decide each request against them once.

A dataset's policy fixes its budget. Each request to run a mechanism gets one decision. A grant
charges the budget; a refusal costs nothing.

Exit codes: 0 done or granted; 1 refused, does not fit, or the audit failed; 2 wrong usage; 3 the
ledger does not answer; 4 an operator must act; 5 the id was granted before; 6 a dry run would be
granted; 130 interrupted. The exit code is right even if the output cannot be written.
"""


class _ErrorGroup(TyperGroup):
    """Turns every expected error of a command into a message and an exit code."""

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        with escape_usage_errors():
            return super().make_context(*arguments, **more)

    def invoke(self, ctx: Any) -> Any:
        with explain_errors(), escape_usage_errors():
            return super().invoke(ctx)


app = typer.Typer(
    name="accountant",
    cls=_ErrorGroup,
    help=_HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        say(f"accountant {version('streaming-privacy-accountant')}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    import logging

    from streams.logs import configure
    from streams.settings import Settings, check_names

    # `serve`, `gateway`, `worker` and `curator` set up their own logging; the others log errors.
    # This reads no value: the command that needs a wrong one reports it.
    configure(Settings.model_construct(log_level="error", log_format="console"))
    if context.invoked_subcommand not in _SERVERS:  # which check all names
        check_names()
    # A token file that others can read is a warning: only its user can fix that.
    logging.getLogger("streams.client.http.bearer").setLevel(logging.WARNING)


_USE, _OFFLINE, _RUN = "Use a ledger", "Work on files", "Run a ledger"

app.add_typer(dataset.app, name="dataset", rich_help_panel=_USE)
app.add_typer(member.app, name="member", rich_help_panel=_USE)
app.add_typer(limit.app, name="limit", rich_help_panel=_USE)
app.add_typer(reservation.app, name="reservation", rich_help_panel=_USE)
app.add_typer(question.app, name="question", rich_help_panel=_USE)
app.add_typer(source.app, name="source", rich_help_panel=_RUN)
app.command("login", rich_help_panel=_USE)(login.login)
app.command("logout", rich_help_panel=_USE)(login.logout)
app.command("me", rich_help_panel=_USE)(me.me)
app.command("mine", rich_help_panel=_USE)(me.mine)
app.command("ask", rich_help_panel=_USE)(ask.ask)
app.command("ask-many", rich_help_panel=_USE)(ask_many.ask_many)
app.command("answers", rich_help_panel=_USE)(answers.answers)
app.command("usage", rich_help_panel=_USE)(usage.usage)
app.command("why", rich_help_panel=_USE)(why.why)
app.command("watch", rich_help_panel=_USE)(watch.watch)
app.add_typer(log.app, name="log", rich_help_panel=_USE)
app.command("audit", rich_help_panel=_USE)(audit.audit)
app.command("head", rich_help_panel=_USE)(head.head)
app.add_typer(source.app, name="source", rich_help_panel=_OFFLINE)
app.command("fits", rich_help_panel=_OFFLINE)(fits.fits)
app.command("plan", rich_help_panel=_OFFLINE)(plan.plan)
app.command("compare", rich_help_panel=_OFFLINE)(compare.compare)
app.command("id", rich_help_panel=_OFFLINE)(me.new)
app.command("decide", rich_help_panel=_OFFLINE)(decide.decide)
app.command("demo", rich_help_panel=_RUN)(demo.demo)
app.command("serve", rich_help_panel=_RUN)(serve.serve)
app.command("gateway", rich_help_panel=_RUN)(gateway.gateway)
app.command("worker", rich_help_panel=_RUN)(worker.worker)
app.command("curator", rich_help_panel=_RUN)(curator.curator)
app.command("ready", rich_help_panel=_RUN)(ready.ready)
app.add_typer(topics.app, name="topics", rich_help_panel=_RUN)
app.add_typer(key.app, name="key", rich_help_panel=_RUN)
app.add_typer(token.app, name="token", rich_help_panel=_RUN)
app.add_typer(clock.app, name="clock", rich_help_panel=_RUN)
app.command("accept-answers", rich_help_panel=_RUN)(accept_answers.accept_answers)
app.command("accept-rollback", rich_help_panel=_RUN)(accept_rollback.accept_rollback)


@cache
def command() -> Any:
    """Return the command with its groups and options, made once: this takes a tenth of a second."""
    return typer.main.get_command(app)


def main() -> None:
    """Run the command that the arguments name."""
    replace_streams()
    os.environ.update(in_upper_case(os.environ))
    try:
        command()()
    finally:
        error = output_error()
        if error is not None and not reader_is_gone():
            complain(f"the output cannot be written: {error.strerror}")
