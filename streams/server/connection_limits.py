"""uvicorn with bounds: how many connections it keeps, and how long it waits for a request."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any, Final, NamedTuple, cast

import uvicorn
from litestar import Litestar
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from streams.clock import steady
from streams.http.problems import PROBLEM_JSON, problem
from streams.logs import get_logger
from streams.server.connection_pool import Network, Pool, Wait, host_of
from streams.server.strict_http import StrictConnection

_log = get_logger(__name__)

REQUEST_S: Final = 10.0
"""How long a connection may be without a whole request, while it is not being answered."""

_NEW_S: Final = 1.0
"""How long idle connections give way before one that could begin a request."""

UNREAD_S: Final = 60.0
"""How long a client may take nothing of an answer that waits for it."""

MOST_HEAD: Final = 65_536
"""Bytes of a request's line and headers."""

_MOST_FILES: Final = 2_048  # reckoned with, however many a process may have
_OWN_FILES: Final = 64
_SHUTDOWN_S: Final = 5
_TICKS_A_SECOND: Final = 10  # of uvicorn's


class ConnectionRoom(NamedTuple):
    """For how many connections a process has files.

    A process that is out of files cannot accept: asyncio tries, and logs, without end.

    Attributes:
        connections: five in eight of its files.
        backlog: connections accepted at a time. Some four times as many are open before the
            first too many has been ended, beside the files that a process needs for itself.
    """

    connections: int
    backlog: int


def room(files: int) -> ConnectionRoom:
    """Return the room that a process of so many files has."""
    if not 0 <= files <= _MOST_FILES:  # the limit may be none, a negative number
        files = _MOST_FILES
    return ConnectionRoom(files * 5 // 8, max(1, (files - _OWN_FILES) // 16))


class _State(ServerState):
    """What the server and its connections share."""

    def __init__(self, pool: Pool) -> None:
        super().__init__()
        self.pool = pool


class _Connection(H11Protocol):
    """A connection that has a place among all, and ends at what is no request.

    Attributes:
        since: when its request could begin, in seconds of the monotonic clock.
    """

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self.conn: StrictConnection = StrictConnection(MOST_HEAD)
        self.since = steady()

    def data_received(self, data: bytes) -> None:
        # What comes behind a refused request is never read.
        if not self.transport.is_closing():
            super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        """Refuse what came and end the connection, which nobody can read any further.

        h11 would not have it where the answer to a HEAD or another answer has begun.
        """
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is None or cycle.response_complete or not cycle.response_started:
            self.transport.write(_refusal(self.conn))
        if cycle is not None:
            cycle.disconnected = True  # whatever it answers now comes too late
            cycle.message_event.set()
        self.transport.close()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.scheme == "http":  # else its TLS has the place
            self._pool.enter(self, host_of(transport.get_extra_info("peername")))

    def connection_lost(self, exc: Exception | None) -> None:
        self._pool.leave(self)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Begin to wait for another request."""
        self.since = steady()
        super().on_response_complete()

    def wait(self) -> Wait | None:
        """Return how it waits for its client, None while it is being answered."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if self.ends_by_itself or self.transport.get_write_buffer_size():
            return None
        if cycle is not None and not cycle.response_complete:
            return self.half() if cycle.more_body and not cycle.response_started else None
        is_idle = cycle is not None and not self.conn.trailing_data[0]
        return Wait(False, True, self.since) if is_idle else self.half()

    def half(self) -> Wait:
        """Return how it waits for the rest of a request."""
        return Wait(steady() - self.since < _NEW_S, False, self.since)

    def give_way(self) -> None:
        """End at once."""
        self.transport.abort()

    @property
    def ends_by_itself(self) -> bool:
        """Whether TLS is being shut down, which has an end: asyncio then knows no buffer."""
        return self.scheme == "https" and self.transport.is_closing()

    @property
    def _pool(self) -> Pool:
        return cast("_State", self.server_state).pool


def _refusal(connection: StrictConnection) -> bytes:
    status, what = HTTPStatus.BAD_REQUEST, f"this is no HTTP request: {connection.fault}"
    if connection.is_too_long:
        status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        what = f"the headers are longer than {MOST_HEAD} bytes: is the token so long?"
    body = problem(status, "malformed_request", what).content
    head = (
        f"HTTP/1.1 {status} {status.phrase}\r\ncontent-type: {PROBLEM_JSON}\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body


class _Encrypted(SSLProtocol):
    """TLS below a connection, whose handshake counts among the connections and has an end.

    asyncio's own way has a connection first appear once its handshake is over, within a minute:
    whoever connects and is silent would take files that nothing counts.
    """

    def __init__(self, inner: _Connection, context: ssl.SSLContext) -> None:
        super().__init__(
            asyncio.get_running_loop(),
            inner,
            context,
            cast("asyncio.Future[Any]", None),  # nobody waits for the handshake
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
        """Return how it waits for its client, also for the end of the handshake."""
        has_begun = cast("asyncio.Transport | None", self._inner.transport) is not None
        return self._inner.wait() if has_begun else self._inner.half()

    def give_way(self) -> None:
        """End at once."""
        if self._below is not None:
            self._below.abort()


class _WaitingConnection(NamedTuple):
    """A connection that waits for its client.

    Attributes:
        cycle: the request that it had last or is sending, None before the first.
        answered: that request has its whole answer.
        unread: bytes of answers that the client has not taken.
        since: when it began to wait, in seconds of the monotonic clock.
    """

    cycle: RequestResponseCycle | None
    answered: bool
    unread: int
    since: float

    def goes_on(self, before: _WaitingConnection) -> bool:
        """Tell whether the client has done nothing since it was looked at before."""
        same = before.cycle is self.cycle and before.answered == self.answered
        return same and before.unread <= self.unread


class BoundedServer(uvicorn.Server):
    """A server that ends connections which send no whole request in time, or take no answer.

    uvicorn itself ends only those that had an answer and then send nothing: whoever connects
    and is silent, stops in the middle of a request or does not read, would hold a file for ever.

    Args:
        app: what answers.
        tls: what connections are encrypted with, None if they are not.
        most: connections to keep open; what the process has room for if not given.
        backlog: connections accepted at a time; as of `room` if not given.
        proxies: peers that have no share of their own.
        request_s, unread_s: see `REQUEST_S`, `UNREAD_S`.
        options: as of `uvicorn.Config`.
    """

    def __init__(
        self,
        app: Litestar,
        *,
        tls: ssl.SSLContext | None = None,
        most: int | None = None,
        backlog: int | None = None,
        proxies: Sequence[Network] = (),
        request_s: float = REQUEST_S,
        unread_s: float = UNREAD_S,
        **options: Any,
    ) -> None:
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        found = room(files)

        # By name: "auto" takes whatever parser is installed, and others have no bound on headers.
        def connection(**parts: Any) -> asyncio.Protocol:
            made = _Connection(**parts)
            return made if tls is None else cast("asyncio.Protocol", _Encrypted(made, tls))

        config = uvicorn.Config(
            app,
            http=cast("type[asyncio.Protocol]", connection),
            ws="none",
            log_config=None,
            access_log=False,
            lifespan="off",
            backlog=backlog or found.backlog,
            timeout_keep_alive=max(1, int(request_s)),
            # A second less, so that the client ends it first and loses no request.
            headers=[("Keep-Alive", f"timeout={max(1, int(request_s) - 1)}")],
            **options,
        )
        super().__init__(config)
        pool = Pool(most or found.connections, proxies)
        self._state = self.server_state = _State(pool)
        self._request_s, self._unread_s = request_s, unread_s
        self._waiting: dict[_Connection, _WaitingConnection] = {}

    async def on_tick(self, counter: int) -> bool:
        """Do uvicorn's own each tenth of a second, and ours each second."""
        if counter % _TICKS_A_SECOND == 0:
            self._end_those_that_wait(steady())
        return await super().on_tick(counter)

    def _end_those_that_wait(self, now: float) -> None:
        waiting: dict[_Connection, _WaitingConnection] = {}
        for connection in list(self._state.connections):
            assert isinstance(connection, _Connection)
            if connection.ends_by_itself:
                continue
            cycle, unread = connection.cycle, connection.transport.get_write_buffer_size()
            answered = cycle is not None and cycle.response_complete
            asking = cycle is None or answered or cycle.more_body
            if not asking and not unread:
                continue  # it is being answered
            found = _WaitingConnection(cycle, answered, unread, now)
            before = self._waiting.get(connection)
            if before is not None and found.goes_on(before):
                found = found._replace(since=before.since)
            if now - found.since <= (self._unread_s if unread else self._request_s):
                waiting[connection] = found
            elif unread:
                connection.transport.abort()  # to close it would wait for the client
            else:
                connection.transport.close()
        self._waiting = waiting
        pool = self._state.pool
        turned_away, pool.turned_away = pool.turned_away, 0
        if turned_away:
            _log.warning("connections_turned_away", count=turned_away, most_open=pool.most)


class GuestServer(BoundedServer):
    """A server inside a process whose signals belong to another one."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the process's signals alone."""
        yield

    async def wait_until_started(self, serving: asyncio.Task[None]) -> None:
        """Wait until it listens.

        Args:
            serving: the task that serves.
        Raises: whatever that task has raised instead.
        """
        while not self.started and not serving.done():  # noqa: ASYNC110 (uvicorn has no event)
            await asyncio.sleep(0.01)
        if serving.done():
            serving.result()
