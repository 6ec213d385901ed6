"""uvicorn with limits: on the number of connections, and on the time to wait for a request."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any, Final, NamedTuple, cast
from urllib.parse import unquote

import h11
import uvicorn
from litestar import Litestar
from litestar.types import ASGIApp
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from streams.clock import steady
from streams.http.problems import PROBLEM_JSON, problem
from streams.server.access_log import AccessLog
from streams.server.connection_pool import Network, Pool, Wait, host_of
from streams.server.exchange_middleware import ExchangeMiddleware
from streams.server.plain_exchange import PlainCycle
from streams.server.plain_http import PlainRequest, parse_request
from streams.server.rate_limit import network_of
from streams.server.strict_http import StrictConnection
from streams.telemetry.logs import get_logger
from streams.telemetry.trace_context import EXCHANGE, REQUEST_ID, Exchange, new_request_id
from streams.telemetry.tracing import Tracing

_log = get_logger(__name__)

REQUEST_S: Final = 10.0
"""Seconds within which a connection must send a whole request."""

_NEW_S: Final = 1.0
"""Seconds during which a new connection is spared, and idle ones end in its place."""

UNREAD_S: Final = 60.0
"""Seconds after which a client that reads nothing of its answer is disconnected."""

MOST_HEAD: Final = 65_536
"""Bytes of a request's line and headers."""

_MOST_FILES: Final = 2_048  # used for connections, however many a process may open
_OWN_FILES: Final = 64
_SHUTDOWN_S: Final = 5
_TICKS_A_SECOND: Final = 10  # of uvicorn's
_OF_PROXIES: Final = frozenset({b"x-forwarded-for", b"x-forwarded-proto"})


class ConnectionRoom(NamedTuple):
    """The connections that a process has file descriptors for.

    A process without free descriptors cannot accept: asyncio retries, and logs, without end.

    Attributes:
        connections: five eighths of the process's descriptors.
        backlog: connections accepted at a time. About four times as many are open before the
            first excess one is ended; the process needs descriptors of its own besides.
    """

    connections: int
    backlog: int


def room(files: int) -> ConnectionRoom:
    """Return the room of a process with so many file descriptors."""
    if not 0 <= files <= _MOST_FILES:  # the limit may be none, a negative number
        files = _MOST_FILES
    return ConnectionRoom(files * 5 // 8, max(1, (files - _OWN_FILES) // 16))


class _State(ServerState):
    """State shared by the server and its connections."""

    def __init__(self, pool: Pool, access_log: AccessLog) -> None:
        super().__init__()
        self.pool = pool
        self.access_log = access_log


class _Connection(H11Protocol):
    """A connection with a slot in the pool, which ends at the first malformed request.

    Attributes:
        since: when it began to wait for a request, in monotonic seconds.
    """

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self.conn: StrictConnection = StrictConnection(MOST_HEAD)
        self.since = steady()
        proxied = isinstance(self.app, ProxyHeadersMiddleware)
        self._app_behind_no_proxy = self.app.app if proxied else self.app

    def data_received(self, data: bytes) -> None:
        # Ignore bytes after a rejected request: they could be a smuggled second request.
        if self.transport.is_closing():
            return
        cycle = self.cycle
        if isinstance(cycle, PlainCycle) and cycle.is_plain and not cycle.response_complete:
            cycle.add(data)
            return
        request = self._plain_request(data)
        if request is None:
            super().data_received(data)
        else:
            self._serve_plain(request, data)

    def _plain_request(self, data: bytes) -> PlainRequest | None:
        """Return the plain request that begins with these bytes, None if h11 must read them."""
        conn = self.conn
        if conn.our_state is not h11.IDLE or conn.their_state is not h11.IDLE:
            return None
        if conn.trailing_data[0] or self.limit_concurrency is not None:
            return None
        return parse_request(data, MOST_HEAD)

    def _serve_plain(self, request: PlainRequest, data: bytes) -> None:
        """Serve a plain request as uvicorn serves the ones that h11 has read."""
        self._unset_keepalive_if_required()
        path, _, query = request.target.partition(b"?")
        self.headers = request.headers
        self.scope = {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": "1.1",
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,  # type: ignore[typeddict-item]
            "method": request.method,
            "root_path": self.root_path,
            "path": self.root_path + unquote(path.decode("ascii")),
            "raw_path": self.root_path.encode("ascii") + path,
            "query_string": query,
            "headers": request.headers,
            "state": self.app_state.copy(),
        }
        self.cycle = PlainCycle(
            request,
            data,
            scope=self.scope,
            conn=self.conn,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            on_response=self.on_response_complete,
        )
        # Without their headers, uvicorn's middleware of proxies only looks the peer up.
        has_proxy = any(name in _OF_PROXIES for name, _ in request.headers)
        app = self.app if has_proxy else self._app_behind_no_proxy
        task = self.loop.create_task(self.cycle.run_asgi(app))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    def send_400_response(self, msg: str) -> None:
        """Answer 400 and end the connection: after a malformed request its framing is lost.

        Written to the transport, since h11 cannot send it while another answer is under way.
        """
        cycle = cast("RequestResponseCycle | None", self.cycle)
        under_way = cycle is not None and not cycle.response_complete
        exchange = cycle.scope.get(EXCHANGE) if cycle is not None and under_way else None
        if not under_way or (cycle is not None and not cycle.response_started):
            self._send_refusal(cast("Exchange | None", exchange))
        if cycle is not None:
            cycle.disconnected = True  # drop whatever the route still answers
            cycle.message_event.set()
        self.transport.close()

    def _send_refusal(self, under_way: Exchange | None) -> None:
        """Send 400 or 431, in place of the response to a request that is under way, if one is."""
        exchange = under_way or Exchange(new_request_id(), None)
        status, head, body = _refusal(self.conn, exchange.request_id)
        self.transport.write(head + body)
        if under_way is not None:
            under_way.status = status  # its line is written at its end
            return
        access_log = cast("_State", self.server_state).access_log
        if not access_log.includes(None, status):
            return
        access_log.write(
            exchange,
            method=None,
            path=None,
            status=status,
            seconds=None,
            sent=len(body),
            client=network_of(host_of(self.transport.get_extra_info("peername"))),
        )

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.scheme == "http":  # with TLS, `_Encrypted` has the slot
            self._pool.enter(self, host_of(transport.get_extra_info("peername")))

    def connection_lost(self, exc: Exception | None) -> None:
        self._pool.leave(self)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Wait for another request."""
        self.since = steady()
        cycle = self.cycle
        if not isinstance(cycle, PlainCycle) or not cycle.is_plain:
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        # No timer of uvicorn's for each request: `on_tick` ends idle connections too.
        self.flow.resume_reading()
        following = cycle.take_next()
        if following:
            self.conn.receive_data(following)
            self.handle_events()

    def wait(self) -> Wait | None:
        """Return its wait for the client, None while it is being answered."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if self.ends_by_itself or self.transport.get_write_buffer_size():
            return None
        if cycle is not None and not cycle.response_complete:
            return self.half() if cycle.more_body and not cycle.response_started else None
        is_idle = cycle is not None and not self.conn.trailing_data[0]
        return Wait(False, True, self.since) if is_idle else self.half()

    def half(self) -> Wait:
        """Return its wait for the rest of a request."""
        return Wait(steady() - self.since < _NEW_S, False, self.since)

    def end(self) -> None:
        """End at once."""
        self.transport.abort()

    @property
    def ends_by_itself(self) -> bool:
        """Whether TLS is shutting down, which has a timeout; its buffer size is then unknown."""
        return self.scheme == "https" and self.transport.is_closing()

    @property
    def _pool(self) -> Pool:
        return cast("_State", self.server_state).pool


def _refusal(connection: StrictConnection, request_id: str) -> tuple[HTTPStatus, bytes, bytes]:
    """Return status, head and body of the answer to a malformed request."""
    status, what = HTTPStatus.BAD_REQUEST, f"malformed HTTP request: {connection.fault}"
    if connection.is_too_long:
        status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        what = f"the headers are longer than {MOST_HEAD} bytes: send a shorter token or cookie"
    body = problem(status, "malformed_request", what).content
    head = (
        f"HTTP/1.1 {status} {status.phrase}\r\ncontent-type: {PROBLEM_JSON}\r\n"
        f"content-length: {len(body)}\r\n{REQUEST_ID}: {request_id}\r\n"
        "connection: close\r\n\r\n"
    )
    return status, head.encode(), body


class _Encrypted(SSLProtocol):
    """TLS under a connection. Its handshake occupies a slot of the pool and has a timeout.

    With asyncio's own TLS, a connection appears only after its handshake, up to a minute later.
    Silent clients would occupy file descriptors that no limit counts.
    """

    def __init__(self, inner: _Connection, context: ssl.SSLContext) -> None:
        super().__init__(
            asyncio.get_running_loop(),
            inner,
            context,
            cast("asyncio.Future[Any]", None),  # nothing awaits the handshake
            server_side=True,
            ssl_handshake_timeout=int(REQUEST_S),
            ssl_shutdown_timeout=_SHUTDOWN_S,
        )
        self._inner = inner
        self._below: asyncio.Transport | None = None
        self._pool = cast("_State", inner.server_state).pool

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._below = cast("asyncio.Transport", transport)
        super().connection_made(transport)
        self._pool.enter(self, host_of(transport.get_extra_info("peername")))

    def connection_lost(self, exc: BaseException | None) -> None:
        self._pool.leave(self)
        super().connection_lost(exc)

    def wait(self) -> Wait | None:
        """Return its wait for the client, during the handshake too."""
        has_begun = cast("asyncio.Transport | None", self._inner.transport) is not None
        return self._inner.wait() if has_begun else self._inner.half()

    def end(self) -> None:
        """End at once."""
        if self._below is not None:
            self._below.abort()


class _WaitingConnection(NamedTuple):
    """A snapshot of a connection that waits for its client.

    Attributes:
        cycle: its latest request, None before the first.
        answered: that request has its whole answer.
        unread: bytes of answers that the client has not read.
        since: when it began to wait, in monotonic seconds.
    """

    cycle: RequestResponseCycle | None
    answered: bool
    unread: int
    since: float

    def is_same_wait(self, before: _WaitingConnection) -> bool:
        """Tell whether the client has done nothing since an earlier snapshot."""
        same = before.cycle is self.cycle and before.answered == self.answered
        return same and before.unread <= self.unread


class BoundedServer(uvicorn.Server):
    """A server that ends connections whose client sends no whole request, or reads no answer.

    uvicorn itself ends only connections that go idle after an answer. A client that stays silent,
    stops within a request or never reads would occupy a file descriptor for ever.

    Args:
        app: the application.
        tls: the TLS context, None for plain HTTP.
        max_connections: connections to keep open; by default `room` decides.
        backlog: connections accepted at a time; by default `room` decides.
        proxies: peers without a maximum of their own.
        request_s, unread_s: see `REQUEST_S`, `UNREAD_S`.
        access_log: gets a line for each request; by default nothing is logged.
        client_by: as `rate_limit.address_of`.
        tracing: makes a span for each request.
        options: as for `uvicorn.Config`.
    """

    def __init__(
        self,
        app: Litestar,
        *,
        tls: ssl.SSLContext | None = None,
        max_connections: int | None = None,
        backlog: int | None = None,
        proxies: Sequence[Network] = (),
        request_s: float = REQUEST_S,
        unread_s: float = UNREAD_S,
        access_log: AccessLog | None = None,
        client_by: str | None = None,
        tracing: Tracing | None = None,
        **options: Any,
    ) -> None:
        access_log = access_log or AccessLog("off")
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        found = room(files)

        # h11 by name: "auto" takes any installed parser, and others have no limit on headers.
        def connection(**parts: Any) -> asyncio.Protocol:
            made = _Connection(**parts)
            return made if tls is None else cast("asyncio.Protocol", _Encrypted(made, tls))

        config = uvicorn.Config(
            ExchangeMiddleware(cast(ASGIApp, app), access_log, client_by, tracing),
            http=cast("type[asyncio.Protocol]", connection),
            ws="none",
            log_config=None,
            access_log=False,
            lifespan="off",
            backlog=backlog or found.backlog,
            timeout_keep_alive=max(1, int(request_s)),
            # A second less than ours: the client closes first, and no request is lost in between.
            headers=[("Keep-Alive", f"timeout={max(1, int(request_s) - 1)}")],
            **options,
        )
        super().__init__(config)
        pool = Pool(max_connections or found.connections, proxies)
        self._state = self.server_state = _State(pool, access_log)
        self._request_s, self._unread_s = request_s, unread_s
        self._waiting: dict[_Connection, _WaitingConnection] = {}

    async def on_tick(self, counter: int) -> bool:
        """Run uvicorn's checks every tenth of a second, and these every second."""
        if counter % _TICKS_A_SECOND == 0:
            self._end_slow_clients(steady())
        return await super().on_tick(counter)

    def _end_slow_clients(self, now: float) -> None:
        waiting: dict[_Connection, _WaitingConnection] = {}
        for connection in list(self._state.connections):
            assert isinstance(connection, _Connection)
            if connection.ends_by_itself:
                continue
            cycle, unread = connection.cycle, connection.transport.get_write_buffer_size()
            answered = cycle is not None and cycle.response_complete
            # A route that reads a body as a stream may pause it: the client then waits for us.
            asking = cycle is None or answered or (cycle.more_body and not cycle.flow.read_paused)
            if not asking and not unread:
                continue  # being answered: only the route can delay it
            found = _WaitingConnection(cycle, answered, unread, now)
            before = self._waiting.get(connection)
            if before is not None and found.is_same_wait(before):
                found = found._replace(since=before.since)
            if now - found.since <= (self._unread_s if unread else self._request_s):
                waiting[connection] = found
            elif unread:
                connection.transport.abort()  # closing would wait for the client to read
            else:
                connection.transport.close()
        self._waiting = waiting
        pool = self._state.pool
        ended, pool.ended = pool.ended, 0
        if ended:
            _log.warning("connections_over_limit", ended=ended, limit=pool.limit)


class GuestServer(BoundedServer):
    """A second server in a process, which leaves the process's signals to the first."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the process's signals alone."""
        yield

    async def wait_until_started(self, serving: asyncio.Task[None]) -> None:
        """Wait until the server listens.

        Args:
            serving: the task that serves.
        Raises: whatever that task has raised instead.
        """
        while not self.started and not serving.done():  # noqa: ASYNC110 (uvicorn has no event)
            await asyncio.sleep(0.01)
        if serving.done():
            serving.result()
