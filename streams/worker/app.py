"""The Faust app: it hosts the processors and owns the read side. `accountant worker` runs it.

Faust's own consumer, tables' changelogs and web server are off: docs/decisions/0010 says why.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from signal import Signals
from typing import Any, Final, NoReturn, cast

import faust
from faust.app.base import BootStrategy
from faust.worker import Worker as FaustWorker
from mode import Service
from mode.supervisors import OneForOneSupervisor

from accountant.errors import LedgerFault
from streams.alerts.delivery_metrics import AlertDeliveryMetrics
from streams.alerts.topic_relay import AlertRelay
from streams.alerts.webhook import webhook_of
from streams.alerts.webhook_consumer import WebhookFeed
from streams.errors import Refused
from streams.kafka.deployment import Deployment, deployment_of
from streams.metrics.live_ledgers import LiveLedgers
from streams.processing.garbage import collect_less
from streams.service.ledger_service import Readiness
from streams.settings import Settings, load_server
from streams.tasks.stop_limit import end_within
from streams.telemetry.logs import configure_server, get_logger
from streams.telemetry.tracing import Tracing, start_tracing
from streams.worker.answers_heads import PartitionAnswersHeads, partition_answers_heads
from streams.worker.http_server import WorkerHttpServer
from streams.worker.local_decisions import LocalDecisions
from streams.worker.partition_checkpoints import PartitionCheckpoints, partition_checkpoints
from streams.worker.partitions import Worker
from streams.worker.read_side import LocalTable, ReadSide, keep_on
from streams.worker.record_tracer import record_tracer

_log = get_logger(__name__)

STOP_S: Final = 10.0  # for the processors; the next owner fences a transaction left open


class _AgentsOnly(BootStrategy):
    """Start agents only: no consumer (group, leader topic, recovery), producer or web server."""

    enable_kafka_consumer = False
    enable_kafka_producer = False
    enable_web = False  # overrides --with-web
    enable_sensors = False


class _Host(FaustWorker):
    """Faust's worker with our logging; without its spinner, which sets the level to DEBUG."""

    def on_setup_root_logger(self, logger: logging.Logger, level: int) -> None:
        self.spinner = None
        settings: Settings = cast("App", self.app).settings_of_worker
        configure_server(settings)

    def execute_from_commandline(self) -> NoReturn:
        app = cast("App", self.app)
        app.stop_host = self._stop_host
        try:
            super().execute_from_commandline()
        except SystemExit:
            if app.refused is not None:
                raise SystemExit(f"error: {app.refused}") from app.refused
            raise

    def _schedule_shutdown(self, signal: Signals) -> None:
        end_within()
        super()._schedule_shutdown(signal)

    def _stop_host(self) -> None:
        # The same as SIGTERM: the loop closes only after every service has stopped.
        self._signal_stop_future = asyncio.ensure_future(self.stop(), loop=self.loop)


class App(faust.App):
    """A Faust app that stores nothing on disk.

    Attributes:
        worker: the partitions.
        read_side: the tables; None if the settings switch them off.
        settings_of_worker: the settings of this worker.
        refused: why the worker may not run; None as long as it may.
        stop_host: stops the process in order; set as soon as the process runs.
    """

    BootStrategy = _AgentsOnly
    worker: Worker
    settings_of_worker: Settings
    read_side: ReadSide | None = None
    refused: Refused | None = None
    stop_host: Callable[[], None] | None = None

    def refuse(self, error: Refused) -> None:
        """Stop the worker in order, for a reason that an operator must resolve.

        If this raised into Faust, Faust would report a crash of the program.
        """
        if self.stop_host is None:
            raise error
        self.refused = error
        self.stop_host()

    async def on_first_start(self) -> None:
        """Create no data directories: a container may be read-only."""


def build(settings: Settings) -> App:
    """Return the app of one worker; it connects only when it starts."""
    deployment = deployment_of(settings)
    app = _faust_app(deployment)
    live_ledgers = LiveLedgers(
        lags=lambda: app.worker.lags(),  # noqa: PLW0108 (the worker is made below)
        partitions=settings.partitions,
        is_sound=lambda partition: app.worker.status.is_sound(partition),  # noqa: PLW0108
        analysts=settings.metrics_analysts,
        levels=settings.metrics_levels,
    )
    local = LocalDecisions()
    instance_id = settings.instance_id or socket.gethostname()
    checkpoints = partition_checkpoints(deployment, settings)
    answers = partition_answers_heads(
        deployment, settings, None if checkpoints is None else checkpoints.senders
    )
    tracing = start_tracing(settings)
    follower = record_tracer(settings, tracing)
    app.worker = Worker(
        deployment,
        instance_id=instance_id,
        observers=[
            live_ledgers,
            *([local] if settings.read_side else ()),
            *(() if checkpoints is None else (checkpoints,)),
            *(() if answers is None else (answers,)),
            *(() if follower is None else (follower,)),
        ],
        headers=follower,
        batch=settings.batch,
        wait=settings.wait_seconds,
        max_ahead_ms=settings.max_ahead_ms,
    )
    app.settings_of_worker = settings
    counts = AlertDeliveryMetrics()
    server = WorkerHttpServer(
        settings,
        source=live_ledgers,
        readiness=lambda: _readiness(app.worker, checkpoints, answers),
        more=[counts, *(() if checkpoints is None else checkpoints.collectors)],
        tracing=tracing,
    )
    _add_processing(app, app.worker, server, checkpoints, tracing)
    if answers is not None:
        _add_service(app, answers.run, "answers_heads_interrupted")
    if settings.read_side:
        app.read_side = ReadSide(app, deployment, local=local)
        server.show(app.read_side.views, app.read_side.usage)
        relay = AlertRelay(deployment, counts, instance_id=instance_id)
        _add_service(app, relay.run, "alerts_interrupted")
    webhook = webhook_of(settings)
    if webhook is not None:
        feed = WebhookFeed(
            deployment,
            webhook,
            counts,
            instance_id=instance_id,
            patience=settings.alert_webhook_patience_seconds,
        )
        _add_service(app, feed.run, "webhook_interrupted")
    return app


def _readiness(
    worker: Worker, checkpoints: PartitionCheckpoints | None, answers: PartitionAnswersHeads | None
) -> Readiness:
    reasons, notes = [*worker.status.readiness().reasons], worker.notes
    if checkpoints is not None:
        reasons += checkpoints.refused
        notes += checkpoints.notes
    if answers is not None:
        notes += answers.notes
    return Readiness(ready=not reasons, reasons=reasons, notes=notes)


def _faust_app(deployment: Deployment) -> App:
    """Return an app with every Faust setting that matters."""
    return App(
        deployment.application,
        env={},  # otherwise BROKER_URL, PROCESSING_GUARANTEE and 80 more would override these
        broker=f"kafka://{deployment.bootstrap}",
        store="memory://",
        autodiscover=False,
        Table=LocalTable,
        Worker=_Host,
        agent_supervisor=OneForOneSupervisor,
        processing_guarantee="at_least_once",  # exactly_once would make its own transactions
        topic_allow_declare=False,
        topic_disable_leader=True,
        reply_create_topic=False,
        table_standby_replicas=0,
        stream_wait_empty=False,
        web_enabled=False,
        worker_redirect_stdouts=False,
        # Only the level: `_Host` sets handlers and format with `logs.configure`.
        logging_config={"version": 1, "incremental": True},
    )


def _add_service(app: App, run: Callable[[], Awaitable[None]], event: str) -> None:
    """Make a loop a service of `app`; its errors never end the app: admission matters more."""

    @app.service
    class Looping(Service):
        """Runs the loop."""

        @Service.task
        async def _run(self) -> None:
            await keep_on(self, run, event)


def _add_processing(
    app: App,
    worker: Worker,
    server: WorkerHttpServer,
    checkpoints: PartitionCheckpoints | None,
    tracing: Tracing | None,
) -> None:
    """Make `worker` a service of `app`: a fatal error ends the process, SIGTERM stops it."""

    @app.service
    class Processing(Service):
        """Runs the processors and the worker's own /metrics, /healthz and /readyz."""

        async def on_start(self) -> None:
            try:
                await server.start()
            except Refused as error:
                app.refuse(error)
            else:
                await worker.start()

        @Service.task
        async def _watch(self) -> None:
            try:
                await worker.wait_fatal()
            except asyncio.CancelledError:
                if self.should_stop:
                    raise
                # Faust treats a cancelled task as finished work, so raise instead.
                raise LedgerFault("the worker was cancelled") from None
            except Refused as error:
                app.refuse(error)
            if not self.should_stop and app.refused is None:
                raise LedgerFault("the worker ended and gave no reason")

        async def on_stop(self) -> None:
            try:
                async with asyncio.timeout(STOP_S):
                    await worker.stop()
            except TimeoutError:
                _log.error("worker_did_not_stop", seconds=STOP_S)
            if checkpoints is not None:
                await asyncio.to_thread(checkpoints.close)
            await server.stop()
            if tracing is not None:
                await asyncio.to_thread(tracing.close)


def run_worker(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT (returns 0) or a fatal error (returns 1).

    Raises: Refused: the start is refused, or another worker has joined under the same name.
    """
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)  # before `build`: services bind to the current loop
    app = build(settings)
    collect_less()
    level = settings.log_level.lower()
    host: FaustWorker = app.Worker(loglevel=level, loop=loop, quiet=True, redirect_stdouts=False)
    try:
        host.execute_from_commandline()  # ends by SystemExit, as commands do
    except SystemExit as end:
        if app.refused is not None:
            raise app.refused from None
        return int(end.code or 0)


def __getattr__(name: str) -> Any:
    """Build `app` when `faust -A streams.app` asks for it, not when the module is imported."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    app = build(load_server())
    globals()["app"] = app
    return app
