"""The Faust app: hosts the processors, owns the read side. `accountant worker` runs it.

Faust's own consumer, tables' changelogs and web server are off: docs/decisions/0010 says why.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any, Final, NoReturn, cast

import faust
from faust import SASLCredentials, SSLCredentials
from faust.app.base import BootStrategy
from faust.types.auth import CredentialsT
from faust.worker import Worker as FaustWorker
from mode import Service
from mode.supervisors import OneForOneSupervisor

from accountant.errors import LedgerFault
from streams.alerts.delivery_metrics import AlertCounts
from streams.alerts.webhook import webhook_of
from streams.alerts.webhook_consumer import WebhookFeed
from streams.errors import Refused
from streams.kafka.deployment import Deployment, deployment_of
from streams.kafka.wire.security import Security
from streams.logs import configure_server, get_logger
from streams.metrics.live_ledgers import LiveLedgers
from streams.processing.garbage import collect_less
from streams.service import Readiness
from streams.settings import Settings, load_server
from streams.worker.http_server import WorkerDoor
from streams.worker.partition_checkpoints import PartitionHeads, partition_heads
from streams.worker.local_decisions import OwnDecisions
from streams.worker.limit_alert_observer import OwnLevels
from streams.worker.partitions import Worker
from streams.worker.read_side import LocalTable, ReadSide, keep_on

_log = get_logger(__name__)

STOP_S: Final = 10.0  # for the processors; what they leave open is fenced by the next owner


class _Boot(BootStrategy):
    """Start agents only: no consumer (group, leader topic, recovery), no web server.

    The producer of alerts is started by the first alert: started by Faust, it would end the
    worker whenever the broker is away at that moment.
    """

    enable_kafka_consumer = False
    enable_kafka_producer = False
    enable_web = False  # whatever --with-web says
    enable_sensors = False


class _Host(FaustWorker):
    """Faust's worker with our logs, and without its spinner, which turns them to DEBUG."""

    def on_setup_root_logger(self, logger: logging.Logger, level: int) -> None:
        self.spinner = None
        settings: Settings = cast("App", self.app).settings_of_worker
        configure_server(settings)

    def execute_from_commandline(self) -> NoReturn:
        app = cast("App", self.app)
        app.let_go = self._let_go
        try:
            super().execute_from_commandline()
        except SystemExit:
            if app.refused is not None:
                raise SystemExit(f"error: {app.refused}") from app.refused
            raise

    def _let_go(self) -> None:
        # As SIGTERM does: the loop is closed only after every service has stopped.
        self._signal_stop_future = asyncio.ensure_future(self.stop(), loop=self.loop)


class App(faust.App):
    """A Faust app that keeps nothing on disk.

    Attributes:
        worker: the partitions.
        read_side: the tables, None where the settings switch them off.
        settings_of_worker: what it was built from.
        refused: why the worker may not run, None as long as it may.
        let_go: what stops the process in order, known as soon as the process runs.
    """

    BootStrategy = _Boot
    worker: Worker
    settings_of_worker: Settings
    read_side: ReadSide | None = None
    refused: Refused | None = None
    let_go: Callable[[], None] | None = None

    def refuse(self, error: Refused) -> None:
        """End the worker in order for a reason that a person must act on.

        Raised to Faust instead, it would be called a crash of the program.
        """
        if self.let_go is None:
            raise error
        self.refused = error
        self.let_go()

    async def on_first_start(self) -> None:
        """Make no data directories: a container may be read-only."""


def build(settings: Settings) -> App:
    """Return the app of one worker; nothing is connected before it starts."""
    deployment = deployment_of(settings)
    app = _faust_app(deployment)
    live_ledgers = LiveLedgers(
        lags=lambda: app.worker.lags(),  # noqa: PLW0108 (the worker is made below)
        partitions=settings.partitions,
        is_sound=lambda partition: app.worker.status.is_sound(partition),  # noqa: PLW0108
        analysts=settings.metrics_analysts,
        levels=settings.metrics_levels,
    )
    own, own_levels = OwnDecisions(), OwnLevels()
    instance_id = settings.instance_id or socket.gethostname()
    heads = partition_heads(deployment, settings)
    app.worker = Worker(
        deployment,
        instance_id=instance_id,
        observers=[
            live_ledgers,
            *([own, own_levels] if settings.read_side else ()),
            *(() if heads is None else (heads,)),
        ],
        batch=settings.batch,
        wait=settings.wait_seconds,
        max_ahead_ms=settings.max_ahead_ms,
    )
    app.settings_of_worker = settings
    counts = AlertCounts()
    door = WorkerDoor(
        settings,
        source=live_ledgers,
        readiness=lambda: _with_notes(app.worker.status.readiness(), heads),
        more=[counts, *(() if heads is None else heads.collectors)],
    )
    _host(app, app.worker, door, heads)
    if settings.read_side:
        app.read_side = ReadSide(
            app,
            deployment,
            owns=lambda number: number in app.worker.status.serving,
            own=own,
            counts=counts,
        )
        own_levels.tell = app.read_side.tell
        door.show(app.read_side.budgets, app.read_side.usage)
    webhook = webhook_of(settings)
    if webhook is not None:
        feed = WebhookFeed(
            deployment,
            webhook,
            counts,
            instance_id=instance_id,
            patience=settings.alert_webhook_patience_seconds,
        )
        _host_feed(app, feed)
    return app


def _with_notes(readiness: Readiness, heads: PartitionHeads | None) -> Readiness:
    if heads is None:
        return readiness
    reasons = [*readiness.reasons, *heads.refused]
    return Readiness(ready=not reasons, reasons=reasons, notes=heads.notes)


def _faust_app(deployment: Deployment) -> App:
    """Return an app whose every Faust setting that matters is given here."""
    return App(
        deployment.application,
        env={},  # else BROKER_URL, PROCESSING_GUARANTEE and 80 more would override these lines
        broker=f"kafka://{deployment.bootstrap}",
        broker_credentials=_credentials(deployment.security),
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
        producer_acks=-1,
        producer_linger=0.0,
        producer_request_timeout=10.0,
        worker_redirect_stdouts=False,
        # Nothing but the level: handlers and format are `logs.configure`'s, set in `_Host`.
        logging_config={"version": 1, "incremental": True},
    )


def _credentials(security: Security) -> CredentialsT | None:
    """Return what Faust's own producer, that of alerts, shows to the broker."""
    if security.username is not None:
        return SASLCredentials(
            username=security.username,
            password=security.password,
            ssl_context=security.tls,
            mechanism=security.mechanism,
        )
    return None if security.tls is None else SSLCredentials(security.tls)


def _host_feed(app: App, feed: WebhookFeed) -> None:
    """Make `feed` a service of `app` that never ends it: alerts are worth less than admission."""

    @app.service
    class Posting(Service):
        """Posts alerts to the webhook."""

        @Service.task
        async def _post(self) -> None:
            await keep_on(self, feed.run, "webhook_interrupted")


def _host(app: App, worker: Worker, door: WorkerDoor, heads: PartitionHeads | None) -> None:
    """Make `worker` a service of `app`: its fatal error ends the process, SIGTERM stops it."""

    @app.service
    class Processing(Service):
        """Runs the processors and the worker's own /metrics, /healthz and /readyz."""

        async def on_start(self) -> None:
            try:
                await door.start()
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
                # Faust takes a cancelled task for finished work: the loss would go unnoticed.
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
            if heads is not None:
                await asyncio.to_thread(heads.close)
            await door.stop()


def run_worker(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT (returns 0) or a fatal error (returns 1).

    Raises: Refused: the start is refused, or another worker has this one's place.
    """
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)  # before the app is made: services bind to the current loop
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
