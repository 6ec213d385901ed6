"""Decisions and alerts as they become visible, as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, Final

from litestar import get
from litestar.openapi import ResponseSpec
from litestar.params import QueryParameter
from litestar.response.streaming import ASGIStreamingResponse
from litestar.types import Receive, Scope, Send

from accountant.records import Decision, encode
from accountant.records.served import served
from accountant.views.datasets import Alert, DatasetView, alerts
from streams.broadcast import MOST_BEHIND, Subscription
from streams.errors import Unavailable
from streams.gateway.context import Context, HttpRequest, context_of
from streams.service import Service

MOST_STREAMS: Final = 500
"""Streams that one gateway keeps open: each takes one of the 1,024 files that a process may
have by default, and requests need theirs."""

_ALIVE_S: Final = 15.0
_PIECE_BYTES: Final = 65_536  # about the most that is kept for a client that does not read
_MEDIA_TYPE: Final = "text/event-stream"
_DESCRIBED: Final = ResponseSpec(
    str, generate_examples=False, media_type=_MEDIA_TYPE, description="server-sent events"
)
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


@get("/events", tags=["requests"], responses={200: _DESCRIBED})
async def stream_events(
    request: HttpRequest,
    crossed: Annotated[
        bool, QueryParameter(description="begin with an alert for each threshold crossed before")
    ] = False,
) -> ASGIStreamingResponse:
    """Stream every decision and alert from now on; a reader that is too slow loses the oldest.

    Events are of type `decision` or `alert`. With `crossed=true` the stream begins with an alert
    for each threshold that was crossed before: who connects again misses none. 503 where too
    many streams are open already: end one, or connect again after Retry-After seconds.
    """
    context = context_of(request)
    streams: Streams = request.app.state.setdefault("streams", Streams())
    # Subscribed before the headers are sent: whoever has them misses nothing after.
    reading = _Reading(streams, context.service)
    # Looked at after it, so that what is crossed in between comes twice rather than never.
    try:
        before = await context.service.datasets() if crossed else []
    except BaseException:
        reading.close()
        raise
    return _EventStream(reading, _events(context, reading, before))


class Streams:
    """The streams that one gateway has open, and their events as they are sent."""

    def __init__(self) -> None:
        self.open: set[_Reading] = set()
        # By identity, for as long as the event itself is kept here: no other has its id.
        self._sent: dict[int, tuple[Decision | Alert, bytes]] = {}

    def encoded(self, happened: Decision | Alert) -> bytes:
        """Return an event as it is sent, made once for all streams."""
        known = self._sent.get(id(happened))
        if known is None:
            known = self._sent[id(happened)] = happened, _event(happened)
            if len(self._sent) > MOST_BEHIND:
                del self._sent[next(iter(self._sent))]
        return known[1]

    def forget(self, reading: _Reading) -> None:
        """Give its place to another."""
        self.open.discard(reading)
        if not self.open:
            self._sent.clear()


class _Reading:
    """What one client reads, and its place among the open streams.

    Raises: Unavailable: there are `MOST_STREAMS` already.
    """

    def __init__(self, streams: Streams, service: Service) -> None:
        if len(streams.open) >= MOST_STREAMS:
            what = f"{MOST_STREAMS} streams of events are open already"
            raise Unavailable(f"{what}: end one, or connect again later")
        self.streams = streams
        self.sources: tuple[AsyncIterator[Any], ...] = service.events(), service.alerts()
        streams.open.add(self)

    def close(self) -> None:
        """Let go of everything, awaiting nothing."""
        self.streams.forget(self)
        for source in self.sources:
            # A generator needs no more than that what waits for it is cancelled.
            if isinstance(source, Subscription):
                source.close()


class _EventStream(ASGIStreamingResponse):
    """The answer to one client; closes what it reads however the answer ends.

    The generator cannot: it has no `finally` yet where the server gives up before its first
    piece, and none of its awaits returns once the client has left.
    """

    def __init__(self, reading: _Reading, pieces: AsyncIterator[bytes]) -> None:
        super().__init__(iterator=pieces, media_type=_MEDIA_TYPE, headers=_HEADERS)
        self._reading = reading

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._reading.close()


async def _events(
    context: Context, reading: _Reading, before: list[DatasetView]
) -> AsyncIterator[bytes]:
    stopping = asyncio.create_task(context.stopping.wait())
    coming: dict[asyncio.Task[bytes], AsyncIterator[Any]] = {}
    try:
        yield b": decisions and alerts from now on\n\n"
        for piece in _crossed(before):
            yield piece
            await asyncio.sleep(0)  # of very many datasets they take most of a second to make
        coming = {_next(source, reading.streams): source for source in reading.sources}
        while not stopping.done():
            done, _ = await asyncio.wait(
                {*coming, stopping}, timeout=_ALIVE_S, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                yield b": still here\n\n"
            came = {task: coming.pop(task) for task in [*coming] if task in done}
            for task in came:
                if task.result():
                    yield task.result()
            if not all(task.result() for task in came):
                return
            coming |= {_next(source, reading.streams): source for source in came.values()}
    finally:
        stopping.cancel()
        for task in coming:
            task.cancel()


def _crossed(views: list[DatasetView]) -> Iterator[bytes]:
    """Yield the alerts of what was crossed before, some at a time."""
    piece, size = list[bytes](), 0
    for view in views:
        for alert in alerts(None, view):
            piece.append(_event(alert))
            size += len(piece[-1])
        if size >= _PIECE_BYTES:
            yield b"".join(piece)
            piece, size = [], 0
    yield b"".join(piece)


def _next(source: AsyncIterator[Any], streams: Streams) -> asyncio.Task[bytes]:
    """Wait for a source's next event, and take some of those behind it; nothing at its end."""

    async def coming() -> bytes:
        async for first in source:
            piece = [streams.encoded(first)]
            size = len(piece[0])
            if isinstance(source, Subscription):
                while size < _PIECE_BYTES and (event := source.ready()) is not None:
                    piece.append(streams.encoded(event))
                    size += len(piece[-1])
            return b"".join(piece)
        return b""

    return asyncio.create_task(coming())


def _event(happened: Decision | Alert) -> bytes:
    if isinstance(happened, Alert):
        place, kind, data = happened.alert_id, b"alert", encode(happened)
    else:
        partition = happened.source.partition if happened.source else 0
        place, kind = f"{partition}-{happened.partition_sequence}", b"decision"
        data = served(encode(happened))
    head = b"id: " + place.encode() + b"\nevent: " + kind
    return head + b"\ndata: " + data + b"\n\n"
