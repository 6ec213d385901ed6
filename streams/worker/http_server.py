"""A worker's read-only HTTP server: metrics, health and its tables."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from copy import copy

from litestar import Litestar, Response, Router, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from accountant.errors import LedgerFault
from accountant.records import encode
from accountant.views.datasets import DatasetView
from accountant.views.usage import Rows, views_of
from streams.auth import (
    add_authentication,
    make_authenticator,
    not_permitted,
    principal_of,
    proxies_of,
    tls_of,
    trusts_forwarded_headers,
)
from streams.http.context import HttpRequest
from streams.http.head_method import answer_head
from streams.http.host_header import host_check
from streams.http.problems import HANDLERS, JSON, HTTPProblem, problem
from streams.http.query_check import host_and_query_check
from streams.metrics.registry import MetricsCollector, make_registry
from streams.metrics.snapshot import MetricsSource
from streams.server.access_log import AccessLog
from streams.server.connection_limits import GuestServer
from streams.server.listen import bind_socket, options_of
from streams.server.monitoring import monitoring
from streams.server.probes import Probes
from streams.service.ledger_service import Readiness
from streams.service.live_views import CountedDecisions, LiveViews
from streams.settings import PREFIX, Settings
from streams.telemetry.logs import get_logger
from streams.telemetry.tracing import Tracing

_log = get_logger(__name__)


def _encode_views(views: LiveViews) -> bytes:
    return encode(list(views.datasets().values()))


def _encode_view(view: DatasetView, rows: Rows) -> bytes:
    return encode({"dataset": view, "usage": views_of(view.dataset, rows)})


def _check_administrator(request: HttpRequest) -> None:
    """Check that the caller may see every dataset.

    Raises: HTTPProblem: the caller is authenticated, but not an administrator.
    """
    caller = principal_of(request)
    if caller is not None and not caller.administrator:
        raise HTTPProblem(not_permitted("a worker's tables are for administrators"))


class WorkerHttpServer:
    """Serves the metrics of a worker or a curator, and its health.

    Args:
        settings: the address, and the authentication.
        source: read at each scrape; None without a ledger of this process.
        readiness: called by /readyz.
        tracing: makes a span for each request.
        routes: in addition to its own.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        source: MetricsSource | None,
        readiness: Callable[[], Readiness],
        more: Sequence[MetricsCollector] = (),
        tracing: Tracing | None = None,
        routes: Sequence[HTTPRouteHandler] = (),
    ) -> None:
        registry = make_registry(source, *more)

        # Decisions run on this loop too, so views are made and encoded in a thread.
        @get("/datasets")
        async def datasets(request: HttpRequest) -> Response[bytes]:
            _check_administrator(request)
            encoded = await asyncio.to_thread(_encode_views, self._views)
            return Response(encoded, media_type=JSON)

        @get("/datasets/{name:str}")
        async def dataset(request: HttpRequest, name: FromPath[str]) -> Response[bytes]:
            _check_administrator(request)
            view = self._views.dataset(name)
            if view is None:
                return problem(
                    404, "unknown_dataset", f"this worker's tables have no dataset {name[:100]}"
                )
            rows = {analyst: copy(row) for analyst, row in self._usage.get(name, {}).items()}
            encoded = await asyncio.to_thread(_encode_view, view, rows)
            return Response(encoded, media_type=JSON)

        tables = Router(
            "/",
            route_handlers=[datasets, dataset, *routes],
            before_request=host_and_query_check(settings),
        )
        app = Litestar(
            [*monitoring(registry, readiness, needs_tokens=False), tables],
            before_request=host_check(settings),
            exception_handlers={kind: HANDLERS[kind] for kind in (HTTPProblem, LedgerFault)},
            openapi_config=None,
            # This package configures the logs of a process, see `streams.telemetry.logs`.
            logging_config=None,
        )
        authenticator = make_authenticator(settings, registry)
        add_authentication(app, authenticator, proxies_of(settings))
        self._probes = Probes(settings, readiness, authenticator, needs_tokens=False)
        self._settings = settings
        self._server = GuestServer(
            answer_head(app),
            tls=tls_of(settings),
            proxies=proxies_of(settings),
            proxy_headers=trusts_forwarded_headers(settings),
            access_log=AccessLog(settings.access_log),
            client_by=settings.limit_by,
            tracing=tracing,
        )
        self._task: asyncio.Task[None] | None = None
        self._views = LiveViews(list, lambda _: None, CountedDecisions())
        self._usage: Mapping[str, Rows] = {}

    def show(self, views: LiveViews, usage: Mapping[str, Rows]) -> None:
        """Serve the tables of the read side under /datasets."""
        self._views, self._usage = views, usage

    async def start(self) -> None:
        """Listen.

        Raises: Refused: the address is taken.
        """
        await self._probes.start()
        settings = self._settings
        options = options_of(settings, port=f"--metrics-port ({PREFIX}METRICS_PORT)")
        listening = bind_socket(settings.listens_at.strip("[]"), settings.metrics_port, options)
        address = listening.getsockname()
        serving = self._server.serve(sockets=[listening])
        self._task = asyncio.create_task(serving, name="worker-server")
        await self._server.wait_until_started(self._task)
        _log.info(
            "worker_listens",
            host=address[0],
            port=address[1],
            serves="/metrics /readyz /healthz /healthz/metrics /datasets",
        )

    async def stop(self) -> None:
        """Stop listening. Safe to repeat."""
        await self._probes.stop()
        self._server.should_exit = True
        task, self._task = self._task, None
        if task is not None:
            await asyncio.wait([task], timeout=3)
