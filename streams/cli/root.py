"""The command's root: its help, its version, its logs and its errors."""

from __future__ import annotations

import os
from functools import cache
from typing import Annotated, Any

import typer

from streams.cli.command_table import MARKUP, TableGroup
from streams.cli.printing.exits import complain, escape_usage_errors, explain_errors
from streams.cli.printing.safe_streams import output_error, reader_is_gone, replace_streams
from streams.cli.printing.say import say
from streams.variables import in_upper_case, may_be_ours

SERVERS = frozenset({"serve", "gateway", "worker", "curator"})
_HELP = """Keep the privacy budgets of datasets, and decide each request against them once.

A dataset's policy fixes its budget. Each request to run a mechanism gets one decision. A grant
charges the budget; a refusal costs nothing.

Exit codes: 0 done or granted; 1 refused, does not fit, or the audit failed; 2 wrong usage; 3 the
ledger does not answer; 4 an operator must act; 5 the id was granted before; 6 a dry run would be
granted; 130 interrupted. The exit code is right even if the output cannot be written.
"""


class _ErrorGroup(TableGroup):
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
    rich_markup_mode=MARKUP,
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

    from streams.telemetry.logs import configure_command

    # `serve`, `gateway`, `worker` and `curator` set up their own logging, and check all names.
    configure_command()
    if context.invoked_subcommand not in SERVERS and any(map(may_be_ours, os.environ)):
        # Imported late: most commands that need no ledger have no variable of ours either.
        from streams.settings import check_names

        check_names()
    # A token file that others can read is a warning: only its user can fix that.
    logging.getLogger("streams.client.http.bearer").setLevel(logging.WARNING)


@cache
def command() -> Any:
    """Return the command, made once."""
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
