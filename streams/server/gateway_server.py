"""The HTTP server of a ledger: binds its address, and serves its application until it stops."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Final

from litestar import Litestar
from prometheus_client import CollectorRegistry

from streams.answers.store import AnswerReader
from streams.answers.waiting import QuestionQueue
from streams.auth import proxies_of, tls_of, trusts_forwarded_headers
from streams.auth.open_datasets import log_open_datasets
from streams.clock import Clock
from streams.http.context import Context
from streams.http.host_header import is_loopback
from streams.server.access_log import AccessLog
from streams.server.app import Pages, create_app
from streams.server.connection_limits import BoundedServer
from streams.server.listen import bind_socket, options_of
from streams.server.monitoring import with_answers
from streams.server.probes import Probes
from streams.service.ledger_service import LedgerService
from streams.settings import PREFIX, Settings
from streams.settings.access import listed
from streams.sources.no_sources import NoSources
from streams.sources.published_states import PublishedStates
from streams.sources.source_file import SourceFile, open_source_file
from streams.sources.source_states import SourceStates
from streams.tasks.stop_limit import end_within
from streams.telemetry.logs import get_logger
from streams.telemetry.tracing import Tracing, start_tracing

_log = get_logger(__name__)
_GRACE_S: Final = 5

Listening = Callable[[str], None]


def ignore_address(_address: str) -> None:
    """Do nothing once the server listens."""


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

    def _stop_by_signal(self) -> None:
        end_within()
        self.stop()

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
            loop.add_signal_handler(number, self._stop_by_signal)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)


def bind(settings: Settings) -> socket.socket:
    """Return a socket bound to the settings' address.

    Raises: Refused: the address is taken or not this machine's.
    """
    options = options_of(settings, port=f"--port ({PREFIX}PORT)", has_bind=True)
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
    listening: Listening = ignore_address,
    made: Callable[[GatewayServer], None] | None = None,
    clock: Clock | None = None,
    answers: AnswerReader | None = None,
    pages: Pages | None = None,
    queue: QuestionQueue | None = None,
    states: SourceStates | PublishedStates | None = None,
    sources: SourceFile | NoSources | None = None,
) -> None:
    """Serve until SIGINT, SIGTERM or `GatewayServer.stop`.

    Args:
        listening: called with the URL once the server accepts connections.
        made: called with the server before it starts.
        clock, answers, pages, queue, sources, states: as for `create_app`. The file is read again
            when it changes.
    Raises: Refused: the address cannot be bound.
    """
    sources = sources or open_source_file(settings)
    with bind(settings) as listened:
        address = address_of(listened, tls=settings.tls_certificate is not None)

        background_tasks = list[asyncio.Task[None]]()

        if isinstance(sources, SourceFile):
            following = asyncio.create_task(sources.follow(), name="file of sources")
            background_tasks.append(following)

        def started() -> None:
            log_authentication(settings, address)
            if settings.authenticates:
                background_tasks.append(
                    asyncio.create_task(log_open_datasets(service), name="open datasets")
                )
            listening(address)

        app = create_app(
            service,
            settings,
            registry=registry,
            clock=clock,
            answers=answers,
            pages=pages,
            queue=queue,
            sources=sources,
            states=states,
        )
        tracing = start_tracing(settings)
        server = GatewayServer(app, settings, on_started=started, tracing=tracing)
        if made is not None:
            made(server)
        readiness = with_answers(service.readiness, answers, queue, sources, states)
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
