"""Decisions as they become visible, as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from litestar import get
from litestar.response import Stream

from accountant.records import Decision, encode
from streams.gateway.context import Context, HttpRequest, context_of

_ALIVE_S: Final = 15.0
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


@get("/events", tags=["requests"], media_type="text/event-stream")
async def stream_events(request: HttpRequest) -> Stream:
    """Stream every decision from now on; a reader that is too slow loses the oldest."""
    context = context_of(request)
    # Subscribed before the headers are sent: whoever has them misses nothing after.
    events = context.service.events()
    return Stream(_events(context, events), media_type="text/event-stream", headers=_HEADERS)


async def _events(context: Context, events: AsyncIterator[Decision]) -> AsyncIterator[bytes]:
    stopping = asyncio.create_task(context.stopping.wait())
    coming: asyncio.Task[Decision] | None = None
    try:
        yield b": decisions from now on\n\n"
        while not stopping.done():
            coming = coming or asyncio.ensure_future(_next(events))
            await asyncio.wait(
                {coming, stopping}, timeout=_ALIVE_S, return_when=asyncio.FIRST_COMPLETED
            )
            if coming.done():
                try:
                    yield _event(coming.result())
                except StopAsyncIteration:
                    return
                coming = None
            elif not stopping.done():
                yield b": still here\n\n"
    finally:
        stopping.cancel()
        if coming is not None:
            coming.cancel()
            await asyncio.wait([coming])
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()


async def _next(events: AsyncIterator[Decision]) -> Decision:
    return await anext(events)


def _event(decision: Decision) -> bytes:
    partition = decision.source.partition if decision.source else 0
    place = f"{partition}-{decision.partition_sequence}".encode()
    return b"id: " + place + b"\nevent: decision\ndata: " + encode(decision) + b"\n\n"
