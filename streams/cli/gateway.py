"""`accountant gateway`: the HTTP server of a ledger on Kafka."""

from __future__ import annotations

from typing import Annotated

import typer

from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail
from streams.cli.serve import Bind, Port, print_address, server_settings


def gateway(
    url: Annotated[
        str, typer.Option("--url", envvar="ACCOUNTANT_URL", help="The broker: kafka://HOST:PORT.")
    ],
    bind: Bind = None,
    port: Port = None,
) -> None:
    """Serve HTTP for a ledger on Kafka until SIGTERM or SIGINT.

    Reads all decisions before it listens. Exit code 3 if the broker does not answer.
    """
    from streams.address import ledger_url
    from streams.serve import serve_kafka
    from streams.telemetry.logs import configure_server

    with explain_errors():
        if ledger_url(url).kind != "kafka":
            hint = "use --url kafka://HOST:PORT, or `accountant serve` for a ledger in a file"
            fail(Exit.USAGE, f"a gateway needs a ledger on Kafka, got {url}", hint=hint)
        settings = server_settings(url, bind, port)
        configure_server(settings)
        serve_kafka(settings, listening=print_address)
