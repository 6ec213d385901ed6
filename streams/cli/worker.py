"""`accountant worker`: decide the partitions that Kafka assigns to this process."""

from __future__ import annotations

from typing import Annotated

import typer

from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail


def worker(
    url: Annotated[
        str, typer.Option("--url", envvar="ACCOUNTANT_URL", help="The broker: kafka://HOST:PORT.")
    ],
    instance_id: Annotated[
        str | None,
        typer.Option(
            envvar="ACCOUNTANT_INSTANCE_ID",
            help="Unique name in the consumer group; keep it across restarts. Default: host name.",
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="TCP port of /metrics (ACCOUNTANT_METRICS_PORT). Default 8001.",
        ),
    ] = None,
) -> None:
    """Run a worker on Kafka until SIGTERM or SIGINT.

    The worker waits for an unreachable broker. A damaged log halts its partition, and /readyz says
    why. Exit code 4 if topics have wrong settings at the start, the port is in use, or another
    worker has the same name.
    """
    from streams.address import ledger_url
    from streams.settings import load_server

    with explain_errors():
        if ledger_url(url).kind != "kafka":
            hint = "use --url kafka://HOST:PORT, or `accountant serve` for a ledger in a file"
            fail(Exit.USAGE, f"a worker needs a ledger on Kafka, got {url}", hint=hint)
        settings = load_server(url=url, instance_id=instance_id, metrics_port=metrics_port)
        from streams.worker.app import run_worker

        code = run_worker(settings)
    raise typer.Exit(Exit.OPERATOR if code else Exit.OK)
