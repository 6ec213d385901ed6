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

from accountant.errors import RequestInvalid
from accountant.records.names import is_name
from streams.auth.decision_pages import note_reading
from streams.auth.principal import principal_of
from streams.auth.visibility import sight_of
from streams.errors import Gone, Unavailable
from streams.gateway.events.happened import EventFilter
from streams.gateway.events.position import Position
from streams.gateway.events.ring import Ring
from streams.gateway.events.stream import EventStream, NotThisLog, check
from streams.http.context import Context, HttpRequest, context_of
from streams.http.problems import HTTPProblem, problem
from streams.visibility import Sight

MOST_STREAMS: Final = 500
"""Streams that one gateway keeps open: each takes one of the 1,024 files that a process may
have by default, and requests need theirs."""
MOST_STREAMS_OF_ONE: Final = 50
"""Of those, streams of one name where the door knows who asks: the others need theirs."""
FOR_NEW_NAMES: Final = MOST_STREAMS // 10
"""The last of all streams, which are for names that have none."""
LAST_EVENT_ID: Final = "Last-Event-ID"

_MEDIA_TYPE: Final = "text/event-stream"
_DESCRIBED: Final = ResponseSpec(
    str, generate_examples=False, media_type=_MEDIA_TYPE, description="server-sent events"
)
_AGAIN_S: Final = 5
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_SHOWN: Final = 100  # characters of what a client has sent
_PAGE: Final = (
    "read GET /datasets/{dataset}/requests?after= on from the sequence that you have of each "
    "dataset, then connect again without Last-Event-ID"
)


@get("/events", tags=["requests"], responses={200: _DESCRIBED})
async def stream_events(
    request: HttpRequest,
    crossed: Annotated[
        bool, QueryParameter(description="begin with an alert for each threshold crossed before")
    ] = False,
    dataset: Annotated[
        str | None, QueryParameter(description="what is about this dataset alone")
    ] = None,
    analyst: Annotated[
        str | None,
        QueryParameter(description="decisions on what this analyst asked alone; and every alert"),
    ] = None,
) -> ASGIStreamingResponse:
    """Stream every decision and alert from now on, or from `Last-Event-ID` on.

    Events are of type `decision` or `alert`. An event's `id` is how far the stream is: who connects
    again with it misses nothing and has nothing twice, 20,000 decisions back at most. An alert
    follows the decision that crossed its threshold. With `crossed=true` the stream begins with an
    alert for each threshold that was crossed before; they have no `id`, and with a
    `Last-Event-ID` they are left out. 503 where too many streams are open already, 429 where the
    one who asks has too many: end one, or connect again after Retry-After seconds.
    """
    context = context_of(request)
    wanted = EventFilter(_name("dataset", dataset), _name("analyst", analyst))
    text = request.headers.get(LAST_EVENT_ID, "")
    position = Position.parse(text) if text else None
    if text and position is None:
        raise _not_ours(text, "it is no id of an event of this version")
    streams: Streams = request.app.state.setdefault("streams", Streams())
    who = principal_of(request)
    reading = streams.begin(context, None if who is None else who.name)
    try:
        return await _begun(request, reading, wanted, position, crossed=crossed)
    except NotThisLog as error:
        reading.close()
        raise _not_ours(text, str(error)) from error
    except Gone as error:
        reading.close()
        raise Gone(f"{error}: {_PAGE}") from error
    except BaseException:
        reading.close()
        raise


def _name(field: str, text: str | None) -> str | None:
    """Return a filter.

    Raises: RequestInvalid: it is no name, so that nothing would ever come.
    """
    if text is not None and not is_name(text):
        raise RequestInvalid(field, "must be a name", text[:_SHOWN])
    return text


def _not_ours(text: str, why: str) -> HTTPProblem:
    answer = problem(
        400,
        "unknown_event_id",
        f"{LAST_EVENT_ID}: {why}; connect without it for what happens from now on",
        field=LAST_EVENT_ID,
        rule="must be the id of an event of this ledger's stream",
        value=text[:_SHOWN],
    )
    return HTTPProblem(answer)


def _too_many(name: str, open_: int) -> HTTPProblem:
    what = f"{name} has {open_} streams of events open, which is the most of one name"
    if open_ < MOST_STREAMS_OF_ONE:
        what += f" while {MOST_STREAMS - FOR_NEW_NAMES} are open in all"
    headers = {"Retry-After": str(_AGAIN_S)}
    return HTTPProblem(
        problem(429, "too_many_streams", f"{what}: end one, or connect again", headers=headers)
    )


async def _note(request: HttpRequest, sight: Sight, dataset: str | None) -> None:
    """Log that somebody listens to what others ask, where their office lets them."""
    if dataset is None:
        sees_all = await asyncio.to_thread(sight.sees_all_somewhere)
    else:
        standing = sight.at(dataset)
        sees_all = standing is not None and standing.sees_all
    note_reading(request, dataset, sees_all=sees_all)


async def _begun(
    request: HttpRequest,
    reading: EventReading,
    wanted: EventFilter,
    position: Position | None,
    *,
    crossed: bool,
) -> ASGIStreamingResponse:
    context, sight = context_of(request), sight_of(request)
    await _note(request, sight, wanted.dataset)
    # All before the headers are sent: whoever has them misses nothing after.
    await reading.ring.ready()
    if position is not None:
        await check(context.service, reading.ring, position)
    stream = EventStream(context.service, reading.ring, wanted, position, sight)
    # Looked at after the stream's begin, so that what is crossed in between comes twice rather
    # than never.
    before = await context.service.datasets() if crossed and position is None else []
    return _Streaming(reading, stream.pieces(before))


class Streams:
    """The streams that one gateway has open, and what happened last for as long as there is one."""

    def __init__(self) -> None:
        self.open: set[EventReading] = set()
        self._ring: Ring | None = None

    def begin(self, context: Context, name: str | None = None) -> EventReading:
        """Return the place of another client.

        Args:
            name: whose it is; None where the door knows nobody.
        Raises: Unavailable: there are `MOST_STREAMS` already. Told: this name has too many (429).
        """
        own = 0 if name is None else sum(each.name == name for each in self.open)
        is_nearly_full = len(self.open) >= MOST_STREAMS - FOR_NEW_NAMES
        if name is not None and own >= (1 if is_nearly_full else MOST_STREAMS_OF_ONE):
            raise _too_many(name, own)
        if len(self.open) >= MOST_STREAMS:
            what = f"{MOST_STREAMS} streams of events are open already"
            raise Unavailable(f"{what}: end one, or connect again later")
        if self._ring is None or self._ring.ended:
            self._ring = Ring(context.service, context.stopping)
        reading = EventReading(self, self._ring, name)
        self.open.add(reading)
        return reading

    def end(self, reading: EventReading) -> None:
        """Give its place to another."""
        self.open.discard(reading)
        if not self.open and self._ring is not None:
            self._ring.close()
            self._ring = None


class EventReading:
    """What one client reads, and its place among the open streams."""

    def __init__(self, streams: Streams, ring: Ring, name: str | None = None) -> None:
        self._streams = streams
        self.name = name
        self.ring = ring

    def close(self) -> None:
        """Let go of everything, awaiting nothing."""
        self._streams.end(self)


class _Streaming(ASGIStreamingResponse):
    """The answer to one client; closes what it reads however the answer ends.

    The generator cannot: it has no `finally` yet where the server gives up before its first
    piece, and none of its awaits returns once the client has left.
    """

    def __init__(self, reading: EventReading, pieces: AsyncIterator[bytes]) -> None:
        super().__init__(iterator=pieces, media_type=_MEDIA_TYPE, headers=_HEADERS)
        self._reading = reading

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._reading.close()
