"""`accountant worker`: decide the partitions that the group gives this process."""

from __future__ import annotations

from typing import Annotated

import typer

from streams.cli.printing.exits import Exit, explained, fail


def worker(
    url: Annotated[
        str, typer.Option("--url", envvar="ACCOUNTANT_URL", help="The broker: kafka://HOST:PORT.")
    ],
    instance_id: Annotated[
        str | None,
        typer.Option(
            envvar="ACCOUNTANT_INSTANCE_ID",
            help="Name in the group, no other's; keep it across restarts. Default: host name.",
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

    It waits for a broker that is away. Exit code 4 if topics are not as they must be at its start,
    its port is taken, or another worker has its name; a log that is not as it must be halts its
    partition, and /readyz says why.
    """
    from streams.address import ledger_url
    from streams.settings import load_server

    with explained():
        if ledger_url(url).kind != "kafka":
            hint = "`accountant serve` decides an embedded ledger; else --url kafka://HOST:PORT"
            fail(Exit.USAGE, f"a worker needs Kafka, and {url} is not", hint=hint)
        settings = load_server(url=url, instance_id=instance_id, metrics_port=metrics_port)
        from streams.worker.app import run_worker

        code = run_worker(settings)
    raise typer.Exit(Exit.OPERATOR if code else Exit.OK)
