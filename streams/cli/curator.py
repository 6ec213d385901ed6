"""`accountant curator`: runs the questions of a ledger on Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail

if TYPE_CHECKING:
    from streams.settings import Settings


def curator(
    url: Annotated[
        str, typer.Option("--url", envvar="ACCOUNTANT_URL", help="The broker: kafka://HOST:PORT.")
    ],
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="TCP port of /metrics (ACCOUNTANT_METRICS_PORT). Default 8001.",
        ),
    ] = None,
) -> None:
    """Answer the questions of a ledger on Kafka until SIGTERM or SIGINT.

    Reads the data that ACCOUNTANT_DATA_SOURCES names, and is the only program that needs them. Run
    one: a second one takes over, and the first one ends. For a ledger in a file, `accountant serve`
    answers the questions itself. Exit code 4 if another curator has taken over.
    """
    from streams.address import ledger_url
    from streams.settings import load_server
    from streams.telemetry.logs import configure_server

    with explain_errors():
        if ledger_url(url).kind != "kafka":
            hint = "set ACCOUNTANT_DATA_SOURCES for `accountant serve`, which has the file open"
            fail(Exit.USAGE, f"a curator needs a ledger on Kafka, got {url}", hint=hint)
        settings = load_server(url=url, metrics_port=metrics_port)
        configure_server(settings)
        _run(settings)


def _run(settings: Settings) -> None:
    """Run until a signal. Raises: Refused, Unavailable."""
    import asyncio
    import signal

    from accountant.errors import BudgetError
    from streams.clock import SystemClock
    from streams.curator.metrics import CuratorMetrics
    from streams.curator.start import first_error, make_curator
    from streams.gateway.question_queue import question_queue_routes
    from streams.kafka.deployment import deployment_of
    from streams.kafka.service.answers import KafkaAnswers
    from streams.kafka.service.connect import connect_kafka
    from streams.server.monitoring import with_answers
    from streams.tasks.stop_limit import end_within
    from streams.worker.answers_heads import check_answers
    from streams.worker.http_server import WorkerHttpServer

    async def run() -> None:
        service = await connect_kafka(settings)
        try:
            store = await KafkaAnswers.start(deployment_of(settings))
            try:
                await check_answers(store, service, settings)
                curator = make_curator(service, store, settings, store)
                queue = curator.queue()
                server = WorkerHttpServer(
                    settings,
                    source=None,
                    readiness=with_answers(
                        service.readiness, store, queue, curator.file, curator.states
                    ),
                    more=[CuratorMetrics(curator.counts, SystemClock())],
                    routes=question_queue_routes(service, queue, SystemClock()),
                )
                await curator.open()
                await server.start()
                try:
                    loop = asyncio.get_running_loop()

                    def stop() -> None:
                        end_within()
                        curator.stop()

                    for number in (signal.SIGINT, signal.SIGTERM):
                        loop.add_signal_handler(number, stop)
                    await curator.run()
                finally:
                    await server.stop()
            finally:
                await store.close()
        finally:
            await service.close()

    try:
        asyncio.run(run())
    except* BudgetError as group:
        raise first_error(group) from group
