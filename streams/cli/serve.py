"""`accountant serve`: an embedded ledger with an HTTP server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail
from streams.cli.printing.say import say
from streams.cli.reading.options import DEFAULT_URL, ReplaceLedger

if TYPE_CHECKING:
    from streams.settings import Settings

Bind = Annotated[
    str | None,
    typer.Option(
        help="Address to listen at. Without authentication everyone who can reach it has full "
        "access (ACCOUNTANT_UNAUTHENTICATED_BIND). With authentication, addresses other than "
        "localhost need TLS or a proxy (ACCOUNTANT_BIND). Default 127.0.0.1.",
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        help="TCP port (ACCOUNTANT_PORT); 0 picks a free one. Default 8000.",
    ),
]


def serve(
    url: Annotated[
        str,
        typer.Option("--url", envvar="ACCOUNTANT_URL", help="The ledger's file: sqlite:///FILE."),
    ] = DEFAULT_URL,
    bind: Bind = None,
    port: Port = None,
    replace_ledger: ReplaceLedger = False,
) -> None:
    """Run a ledger in a file, and serve HTTP until SIGTERM or SIGINT.

    Creates the file if it does not exist. Other commands with the same --url find the server.
    Prints the address when it listens. Exit code 4 if it refuses to start.
    """
    from streams.address import ledger_url
    from streams.serve import serve as serve_ledger
    from streams.telemetry.logs import configure_server

    with explain_errors():
        if ledger_url(url).kind != "sqlite":
            hint = "use --url sqlite:///FILE, or `accountant gateway` for a ledger on Kafka"
            fail(Exit.USAGE, f"`accountant serve` needs a ledger's file, got {url}", hint=hint)
        settings = server_settings(url, bind, port)
        configure_server(settings)
        serve_ledger(settings, listening=print_address, replace_ledger=replace_ledger)


def server_settings(url: str, bind: str | None, port: int | None) -> Settings:
    """Return the settings of a server.

    With authentication `--bind` sets `bind`, without it `unauthenticated_bind`.
    """
    from streams.settings import load_server

    settings = load_server(url=url, port=port)
    if bind is None:
        return settings
    field = "bind" if settings.authenticates else "unauthenticated_bind"
    return load_server(url=url, port=port, **{field: bind})


def print_address(address: str) -> None:
    """Print the server's address, for people and for scripts that wait for it."""
    say(f"listening at {address}")
