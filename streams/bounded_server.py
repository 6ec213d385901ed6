"""uvicorn with bounds: how many connections it keeps, and how long it waits for a request."""

from __future__ import annotations

import asyncio
import resource
import time
from typing import Any, Final, NamedTuple, cast

import uvicorn
from litestar import Litestar
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from streams.loggers import get_logger

_log = get_logger(__name__)

REQUEST_S: Final = 10.0
"""How long a client may take to send a request; between requests uvicorn waits 5 s."""

_MOST_FILES: Final = 2_048  # reckoned with, however many a process may have
_TICKS_A_SECOND: Final = 10  # of uvicorn's


class Room(NamedTuple):
    """For how many connections a process has files.

    A process that is out of files cannot accept: asyncio tries, and logs, without end.

    Attributes:
        connections: three in four of its files.
        backlog: connections accepted at a time, and so before the first too many is ended.
    """

    connections: int
    backlog: int


def room() -> Room:
    """Return the room that this process has, as its files are limited now."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if not 0 <= files <= _MOST_FILES:  # the limit may be none, a negative number
        files = _MOST_FILES
    return Room(files * 3 // 4, max(1, files // 16))


class _State(ServerState):
    """What the server and its connections share."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most
        self.turned_away = 0


class _Connection(H11Protocol):
    """A connection that ends as it begins where there are too many."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        state = cast("_State", self.server_state)
        if len(self.connections) > state.most:
            state.turned_away += 1
            transport.abort()


class _Waiting(NamedTuple):
    """A connection whose next request is not whole.

    Attributes:
        cycle: the request that it had last or is sending, None before the first.
    """

    cycle: RequestResponseCycle | None
    since: float


class BoundedServer(uvicorn.Server):
    """A server that ends connections which send no whole request in time.

    uvicorn itself ends only those that had an answer and then send nothing: whoever connects
    and is silent, or stops in the middle of a request, would hold a file for ever.

    Args:
        app: what answers.
        most: connections to keep open; what the process has room for if not given.
        request_s: seconds in which a request must have come.
        options: as of `uvicorn.Config`.
    """

    def __init__(
        self,
        app: Litestar,
        *,
        most: int | None = None,
        request_s: float = REQUEST_S,
        **options: Any,
    ) -> None:
        found = room()
        # By name: "auto" takes whatever parser is installed, and others have no bound on headers.
        config = uvicorn.Config(
            app,
            http=_Connection,
            ws="none",
            log_config=None,
            access_log=False,
            lifespan="off",
            backlog=found.backlog,
            **options,
        )
        super().__init__(config)
        self._state = self.server_state = _State(most or found.connections)
        self._request_s = request_s
        self._waiting: dict[_Connection, _Waiting] = {}

    async def on_tick(self, counter: int) -> bool:
        """Do uvicorn's own each tenth of a second, and ours each second."""
        if counter % _TICKS_A_SECOND == 0:
            self._end_those_that_wait(time.monotonic())
        return await super().on_tick(counter)

    def _end_those_that_wait(self, now: float) -> None:
        waiting: dict[_Connection, _Waiting] = {}
        for connection in list(self._state.connections):
            assert isinstance(connection, _Connection)
            cycle = connection.cycle
            if cycle is not None and not cycle.response_complete and not cycle.more_body:
                continue  # it is being answered
            before = self._waiting.get(connection)
            if before is None or before.cycle is not cycle:  # it has sent something since
                before = _Waiting(cycle, now)
            if now - before.since > self._request_s:
                connection.transport.close()
            else:
                waiting[connection] = before
        self._waiting = waiting
        turned_away, self._state.turned_away = self._state.turned_away, 0
        if turned_away:
            most = self._state.most
            _log.warning("connections_turned_away", count=turned_away, most_open=most)
