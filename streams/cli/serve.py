"""`accountant serve`: an embedded ledger with its HTTP door."""

from __future__ import annotations

from typing import Annotated

import typer

from streams.cli.printing.exits import Exit, explained, fail
from streams.cli.reading.options import DEFAULT_URL

Bind = Annotated[
    str | None,
    typer.Option(
        envvar="ACCOUNTANT_UNAUTHENTICATED_BIND",
        help="Address to listen at; whoever reaches it is the owner. Default 127.0.0.1.",
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        envvar="ACCOUNTANT_PORT",
        min=0,
        max=65535,
        help="TCP port; 0 picks a free one. Default 8000.",
    ),
]


def serve(
    url: Annotated[
        str,
        typer.Option("--url", envvar="ACCOUNTANT_URL", help="The ledger's file: sqlite:///FILE."),
    ] = DEFAULT_URL,
    bind: Bind = None,
    port: Port = None,
) -> None:
    """Decide an embedded ledger and serve HTTP until SIGTERM or SIGINT.

    Makes the file if it is not there. Other commands with the same --url find the server.
    Prints its address once it listens. Exit code 4 if the start is refused.
    """
    from streams.address import ledger_url
    from streams.gateway.server import serve as serve_ledger
    from streams.logs import configure
    from streams.settings import load

    with explained():
        if ledger_url(url).kind != "sqlite":
            hint = "`accountant gateway` serves a ledger on Kafka; else --url sqlite:///FILE"
            fail(Exit.USAGE, f"an embedded ledger is a file, and {url} is none", hint=hint)
        settings = load(url=url, unauthenticated_bind=bind, port=port)
        configure(settings)
        serve_ledger(settings, listening=say_where)


def say_where(address: str) -> None:
    """Print where the door is, for people and for scripts that wait for it."""
    typer.echo(f"listening at {address}")
