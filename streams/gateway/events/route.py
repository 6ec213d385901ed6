"""GET /events: decisions and alerts as they become visible, as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Final

from litestar import get
from litestar.openapi import ResponseSpec
from litestar.params import QueryParameter
from litestar.response.streaming import ASGIStreamingResponse
from litestar.types import Receive, Scope, Send

from accountant.records.names import check_name
from streams.auth.decision_pages import log_reading
from streams.auth.principal import principal_of
from streams.auth.unknown_dataset import unknown_dataset
from streams.auth.visibility import visibility_of
from streams.errors import Gone, Unavailable
from streams.gateway.events.event import EventFilter
from streams.gateway.events.position import Position
from streams.gateway.events.replay_buffer import ReplayBuffer
from streams.gateway.events.stream import EventStream, PositionNotInLog, check_position
from streams.http.context import Context, HttpRequest, context_of
from streams.http.problems import HTTPProblem, problem
from streams.service.visibility import Visibility

MAX_STREAMS: Final = 500
"""Streams that one gateway keeps open: each takes one of the 1,024 files that a process may
have by default, and requests need theirs."""
MAX_STREAMS_OF_ONE: Final = 50
"""Of those, streams of one caller, so that no caller takes all of them."""
FOR_NEW_NAMES: Final = MAX_STREAMS // 10
"""Streams reserved for callers who have none open yet."""
LAST_EVENT_ID: Final = "Last-Event-ID"

_MEDIA_TYPE: Final = "text/event-stream"
DESCRIBED: Final = ResponseSpec(
    str, generate_examples=False, media_type=_MEDIA_TYPE, description="server-sent events"
)
_RETRY_AFTER_S: Final = 5
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_SHOWN: Final = 100  # characters of what a client has sent
_PAGE: Final = (
    "page through GET /datasets/{dataset}/requests?after=N from the last sequence that you have "
    "of each dataset, then connect without Last-Event-ID"
)


@get("/events", tags=["requests"], responses={200: DESCRIBED})
async def stream_events(
    request: HttpRequest,
    crossed: Annotated[
        bool,
        QueryParameter(description="begin with an alert for each threshold reached so far"),
    ] = False,
    dataset: Annotated[
        str | None, QueryParameter(description="only events about this dataset")
    ] = None,
    analyst: Annotated[
        str | None,
        QueryParameter(description="only decisions on this analyst's requests, and every alert"),
    ] = None,
) -> ASGIStreamingResponse:
    """Stream every decision and alert from now on, or from `Last-Event-ID` on.

    Events are of type `decision` or `alert`. An event's `id` is the stream's position: a client
    that reconnects with it misses nothing and gets nothing twice, up to 20,000 decisions back. An
    alert follows the decision that reached its threshold. With `crossed=true` the stream begins
    with an alert for each threshold reached so far; these have no `id`, and are left out with
    `Last-Event-ID`. 503 when the server has too many open streams, 429 when the caller has: close
    one, or connect again after Retry-After seconds.
    """
    wanted = EventFilter(_name("dataset", dataset), _name("analyst", analyst))
    text = request.headers.get(LAST_EVENT_ID, "")
    position = Position.parse(text) if text else None
    if text and position is None:
        raise _unknown_event_id(text, "it is not an event id of this version")
    if dataset is not None and await visibility_of(request).dataset(dataset) is None:
        raise HTTPProblem(await unknown_dataset(request, dataset))
    reading = begin_stream(request)
    try:
        return await _start_stream(request, reading, wanted, position, crossed=crossed)
    except PositionNotInLog as error:
        reading.close()
        raise _unknown_event_id(text, str(error)) from error
    except Gone as error:
        reading.close()
        raise Gone(f"{error}: {_PAGE}") from error
    except BaseException:
        reading.close()
        raise


def begin_stream(request: HttpRequest) -> OpenStream:
    """Register a stream of a request's caller.

    Raises: as `Streams.begin`.
    """
    streams: Streams = request.app.state.setdefault("streams", Streams())
    caller = principal_of(request)
    return streams.begin(context_of(request), None if caller is None else caller.name)


def _name(field: str, text: str | None) -> str | None:
    """Return a filter's name.

    Raises: RequestInvalid: not a valid name, which no event could ever match.
    """
    if text is not None:
        check_name(field, text)
    return text


def _unknown_event_id(text: str, why: str) -> HTTPProblem:
    answer = problem(
        400,
        "unknown_event_id",
        f"{LAST_EVENT_ID}: {why}. Connect without it for events from now on",
        field=LAST_EVENT_ID,
        rule="must be the id of an event of this ledger's stream",
        value=text[:_SHOWN],
    )
    return HTTPProblem(answer)


def _too_many(name: str, open_: int) -> HTTPProblem:
    what = f"{name} has {open_} open streams of events, the limit of one caller"
    if open_ < MAX_STREAMS_OF_ONE:
        what += f" while this server has {MAX_STREAMS - FOR_NEW_NAMES} open"
    headers = {"Retry-After": str(_RETRY_AFTER_S)}
    return HTTPProblem(
        problem(429, "too_many_streams", f"{what}: close one, then connect again", headers=headers)
    )


async def _log_subscription(
    request: HttpRequest, visibility: Visibility, dataset: str | None
) -> None:
    """Log that a caller follows other people's requests by the right of a role."""
    if dataset is None:
        reads_others = await asyncio.to_thread(visibility.reads_others_somewhere)
    else:
        access = visibility.at(dataset)
        reads_others = access is not None and access.reads_others
    log_reading(request, dataset, reads_others=reads_others)


async def _start_stream(
    request: HttpRequest,
    reading: OpenStream,
    wanted: EventFilter,
    position: Position | None,
    *,
    crossed: bool,
) -> ASGIStreamingResponse:
    context, visibility = context_of(request), visibility_of(request)
    await _log_subscription(request, visibility, wanted.dataset)
    # Subscribe before the headers are sent: a client that has them must miss nothing.
    await reading.buffer.ready()
    if position is not None:
        await check_position(context.service, reading.buffer, position)
    stream = EventStream(context.service, reading.buffer, wanted, position, visibility)
    # Read after subscribing: a threshold reached in between comes twice rather than never.
    before = await context.service.datasets() if crossed and position is None else []
    return StreamResponse(reading, stream.pieces(before))


class Streams:
    """The server's open streams. They share a replay buffer, which exists while any is open."""

    def __init__(self) -> None:
        self.open: set[OpenStream] = set()
        self._buffer: ReplayBuffer | None = None

    def begin(self, context: Context, name: str | None = None) -> OpenStream:
        """Register a client's stream.

        Args:
            name: the caller; None without authentication.
        Raises: Unavailable: the server has `MAX_STREAMS`. HTTPProblem: the caller has too many.
        """
        own = 0 if name is None else sum(each.name == name for each in self.open)
        is_nearly_full = len(self.open) >= MAX_STREAMS - FOR_NEW_NAMES
        if name is not None and own >= (1 if is_nearly_full else MAX_STREAMS_OF_ONE):
            raise _too_many(name, own)
        if len(self.open) >= MAX_STREAMS:
            what = f"this server has {MAX_STREAMS} open streams of events, its limit"
            raise Unavailable(f"{what}: close one, or connect again later")
        if self._buffer is None or self._buffer.ended:
            self._buffer = ReplayBuffer(context.service, context.stopping)
        reading = OpenStream(self, self._buffer, name)
        self.open.add(reading)
        return reading

    def end(self, reading: OpenStream) -> None:
        """Unregister a stream; the last one closes the buffer."""
        self.open.discard(reading)
        if not self.open and self._buffer is not None:
            self._buffer.close()
            self._buffer = None


class OpenStream:
    """One client's place among the open streams."""

    def __init__(self, streams: Streams, buffer: ReplayBuffer, name: str | None = None) -> None:
        self._streams = streams
        self.name = name
        self.buffer = buffer

    def close(self) -> None:
        """Unregister the stream, without awaiting anything."""
        self._streams.end(self)


class StreamResponse(ASGIStreamingResponse):
    """The response to one client; it unregisters the stream however the response ends.

    The generator cannot do that. Its `finally` does not exist yet if the server stops before the
    first piece, and none of its awaits returns once the client has disconnected.
    """

    def __init__(self, reading: OpenStream, pieces: AsyncIterator[bytes]) -> None:
        super().__init__(iterator=pieces, media_type=_MEDIA_TYPE, headers=_HEADERS)
        self._reading = reading

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._reading.close()
