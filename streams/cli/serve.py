"""`accountant serve`: an embedded ledger with its HTTP door."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.printing.exits import Exit, explained, fail
from streams.cli.printing.say import say
from streams.cli.reading.options import DEFAULT_URL

if TYPE_CHECKING:
    from streams.settings import Settings

Bind = Annotated[
    str | None,
    typer.Option(
        help="Address to listen at. Without authentication whoever reaches it is the owner "
        "(ACCOUNTANT_UNAUTHENTICATED_BIND); with it, others need TLS or a proxy (ACCOUNTANT_BIND). "
        "Default 127.0.0.1.",
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
) -> None:
    """Decide an embedded ledger and serve HTTP until SIGTERM or SIGINT.

    Makes the file if it is not there. Other commands with the same --url find the server.
    Prints its address once it listens. Exit code 4 if the start is refused.
    """
    from streams.address import ledger_url
    from streams.logs import configure_server
    from streams.server.serve import serve as serve_ledger

    with explained():
        if ledger_url(url).kind != "sqlite":
            hint = "`accountant gateway` serves a ledger on Kafka; else --url sqlite:///FILE"
            fail(Exit.USAGE, f"an embedded ledger is a file, and {url} is none", hint=hint)
        settings = settings_of_door(url, bind, port)
        configure_server(settings)
        serve_ledger(settings, listening=say_where)


def settings_of_door(url: str, bind: str | None, port: int | None) -> Settings:
    """Return the settings of a door: which address `--bind` is depends on authentication."""
    from streams.settings import load_server

    settings = load_server(url=url, port=port)
    if bind is None:
        return settings
    field = "bind" if settings.authenticates else "unauthenticated_bind"
    return load_server(url=url, port=port, **{field: bind})


def say_where(address: str) -> None:
    """Print where the door is, for people and for scripts that wait for it."""
    say(f"listening at {address}")
