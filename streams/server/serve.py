"""Runs the HTTP server: of an embedded ledger, and of a ledger on Kafka."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from litestar import Litestar
from prometheus_client import CollectorRegistry

from streams.answers.store import AnswerReader
from streams.auth import check_access, proxies_of, tls_of, trusts_forwarded_headers
from streams.auth.open_datasets import log_open_datasets
from streams.clock import Clock
from streams.curator.start import answers_of_file
from streams.embedded.service import EmbeddedService
from streams.embedded.writer import error_text
from streams.errors import Refused, name_missing_extra
from streams.http.context import Context
from streams.http.host_header import is_loopback
from streams.kafka.connect import connect_kafka
from streams.kafka.topic_sink import topic_sink
from streams.logs import get_logger
from streams.metrics.analysts import UsageCollector
from streams.metrics.registry import make_registry
from streams.processing.garbage import collect_less
from streams.server.access_log import AccessLog
from streams.server.app import create_app
from streams.server.connection_limits import BoundedServer
from streams.server.monitoring import with_answers
from streams.server.probes import Probes, bind_socket
from streams.service import LedgerService
from streams.settings import PREFIX, Settings
from streams.settings.access import listed
from streams.tracing import Tracing, check_tracing, start_tracing

_log = get_logger(__name__)
_GRACE_S: Final = 5
_SWITCH_S: Final = 0.0005

Listening = Callable[[str], None]


def _silent(_address: str) -> None:
    pass


class GatewayServer(BoundedServer):
    """A server whose `stop` also ends the streams of events.

    It handles signals itself: uvicorn would raise the signal again before the ledger is closed.
    """

    def __init__(
        self,
        app: Litestar,
        settings: Settings,
        *,
        on_started: Callable[[], None],
        tracing: Tracing | None = None,
    ) -> None:
        super().__init__(
            app,
            tls=tls_of(settings),
            proxies=proxies_of(settings),
            proxy_headers=trusts_forwarded_headers(settings),
            server_header=False,
            timeout_graceful_shutdown=_GRACE_S,
            access_log=AccessLog(settings.access_log),
            client_by=settings.limit_by,
            tracing=tracing,
        )
        context = app.state.context
        assert isinstance(context, Context)
        self._stopping = context.stopping
        self._on_started = on_started

    def stop(self) -> None:
        """Shut down gracefully. Call it in the server's own event loop."""
        self._stopping.set()
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._on_started()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)


def bind(settings: Settings) -> socket.socket:
    """Return a socket bound to the settings' address.

    Raises: Refused: the address is taken or not this machine's.
    """
    variable = "BIND" if settings.authenticates else "UNAUTHENTICATED_BIND"
    options = f"--port ({PREFIX}PORT) or --bind ({PREFIX}{variable})"
    return bind_socket(settings.listens_at.strip("[]"), settings.port, options)


def address_of(listening: socket.socket, *, tls: bool = False) -> str:
    """Return a socket's URL for clients on this machine."""
    host, port = listening.getsockname()[:2]
    if host in {"0.0.0.0", "::"}:  # noqa: S104 - recognised, not bound to
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"  # noqa: S104
    scheme = "https" if tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def log_authentication(settings: Settings, address: str) -> None:
    """Log at start whether authentication is on, and who has access."""
    if settings.authenticates:
        _log.info(
            "authentication_is_on",
            address=address,
            bound_to=settings.bind,
            tokens=None if settings.tokens is None else str(settings.tokens),
            provider=settings.oidc_issuer,
            administrators=len(listed(settings.administrators)),
            tls=settings.tls_certificate is not None,
            trusted_proxy=settings.trusted_proxy or None,
        )
        return
    alone = is_loopback(settings.unauthenticated_bind)
    _log.warning(
        "authentication_is_off",
        address=address,
        bound_to=settings.unauthenticated_bind,
        full_access="everyone on this machine" if alone else "EVERYONE WHO CAN REACH THIS ADDRESS",
    )


async def run_gateway(
    service: LedgerService,
    settings: Settings,
    *,
    registry: CollectorRegistry | None = None,
    listening: Listening = _silent,
    made: Callable[[GatewayServer], None] | None = None,
    clock: Clock | None = None,
    answers: AnswerReader | None = None,
) -> None:
    """Serve until SIGINT, SIGTERM or `GatewayServer.stop`.

    Args:
        listening: called with the URL once the server accepts connections.
        made: called with the server before it starts.
        clock, answers: as for `create_app`.
    Raises: Refused: the address cannot be bound.
    """
    with bind(settings) as listened:
        address = address_of(listened, tls=settings.tls_certificate is not None)

        background_tasks = list[asyncio.Task[None]]()

        def started() -> None:
            log_authentication(settings, address)
            if settings.authenticates:
                background_tasks.append(
                    asyncio.create_task(log_open_datasets(service), name="open datasets")
                )
            listening(address)

        app = create_app(service, settings, registry=registry, clock=clock, answers=answers)
        tracing = start_tracing(settings)
        server = GatewayServer(app, settings, on_started=started, tracing=tracing)
        if made is not None:
            made(server)
        readiness = with_answers(service.readiness, answers)
        probes = Probes(settings, readiness, app.state.get("authenticator"))
        await probes.start()
        try:
            await server.serve(sockets=[listened])
        finally:
            await probes.stop()
            for task in background_tasks:
                task.cancel()
            if tracing is not None:
                await asyncio.to_thread(tracing.close)


def serve(settings: Settings, *, listening: Listening = _silent) -> None:
    """Run an embedded ledger with its HTTP server until SIGINT or SIGTERM.

    Raises:
        Refused: it cannot start, or the disk failed: an operator must act.
        LogDamaged: the log contradicts itself.
    """
    kind, target = settings.ledger
    if kind != "sqlite":
        raise Refused(
            f"serve needs a ledger in a file, and {PREFIX}URL is {settings.url}: set it to "
            "sqlite:///FILE, or run `accountant gateway`"
        )
    check_access(settings)  # before the ledger is opened, or made
    check_tracing(settings)
    service = EmbeddedService.open(Path(target), settings, topic_sink=topic_sink)
    # The writer's thread releases the GIL at each step of SQLite, and waits this long to get it
    # back while the server is busy; the default is 5 ms.
    sys.setswitchinterval(_SWITCH_S)
    try:
        why = asyncio.run(_serve(service, settings, listening))
    finally:
        service.close_sync()
    if why is not None:
        raise Refused(f"the ledger stopped: {error_text(why)}") from why


async def _serve(
    service: EmbeddedService, settings: Settings, listening: Listening
) -> BaseException | None:
    loop, ended = asyncio.get_running_loop(), list[BaseException]()

    def made(server: GatewayServer) -> None:
        def on_end(why: BaseException) -> None:
            ended.append(why)
            with contextlib.suppress(RuntimeError):  # the loop may already be closed
                loop.call_soon_threadsafe(server.stop)

        service.on_end(on_end)

    def publish(address: str) -> None:
        collect_less()
        service.publish_address(address)
        listening(address)

    async with answers_of_file(service, Path(settings.ledger.target), settings) as answered:
        registry = make_registry(
            service.live_ledgers,
            service.alert_counts,
            *service.checkpoint_collectors,
            *answered.collectors,
        )
        await run_gateway(
            service,
            settings,
            registry=registry,
            listening=publish,
            made=made,
            answers=answered.reader,
        )
    return ended[0] if ended else None


def serve_kafka(settings: Settings, *, listening: Listening = _silent) -> None:
    """Run the HTTP server of a ledger on Kafka until SIGINT or SIGTERM.

    Raises: Refused, Unavailable: the broker cannot be used.
    """
    if settings.ledger.kind != "kafka":
        raise Refused(
            f"gateway needs a ledger on Kafka, and {PREFIX}URL is {settings.url}: set it to "
            "kafka://HOST:PORT, or run `accountant serve`"
        )
    check_access(settings)
    check_tracing(settings)
    with name_missing_extra():  # importing the Kafka client takes a third of a second
        from streams.kafka.answers import AnswerTopic, open_answers
        from streams.kafka.deployment import deployment_of

    def ready(address: str) -> None:
        collect_less()
        listening(address)

    async def run() -> None:
        service = await connect_kafka(settings)
        answers: AnswerTopic | None = None
        try:
            answers = await open_answers(deployment_of(settings))
            service.usage_index.start()
            usage = UsageCollector(service.usage_index, settings.metrics_analysts)
            registry = make_registry(None, usage)
            await run_gateway(
                service, settings, registry=registry, listening=ready, answers=answers
            )
        finally:
            if answers is not None:
                await answers.close()
            await service.close()

    asyncio.run(run())
