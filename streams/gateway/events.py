"""Decisions and alerts as they become visible, as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from litestar import get
from litestar.params import QueryParameter
from litestar.response import Stream

from accountant.records import Decision, encode
from accountant.views import Alert, DatasetView, alerts
from streams.gateway.context import Context, HttpRequest, context_of

_ALIVE_S: Final = 15.0
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


@get("/events", tags=["requests"], media_type="text/event-stream")
async def stream_events(
    request: HttpRequest,
    crossed: Annotated[
        bool, QueryParameter(description="begin with an alert for each threshold crossed before")
    ] = False,
) -> Stream:
    """Stream every decision and alert from now on; a reader that is too slow loses the oldest.

    Events are of type `decision` or `alert`. With `crossed=true` the stream begins with an alert
    for each threshold that was crossed before: who connects again misses none.
    """
    context = context_of(request)
    # Subscribed before the headers are sent: whoever has them misses nothing after.
    sources: tuple[AsyncIterator[Any], ...] = context.service.events(), context.service.alerts()
    # Looked at after it, so that what is crossed in between comes twice rather than never.
    try:
        before = await context.service.datasets() if crossed else []
    except BaseException:
        await _close(sources)
        raise
    return Stream(
        _events(context, sources, before), media_type="text/event-stream", headers=_HEADERS
    )


async def _events(
    context: Context, sources: tuple[AsyncIterator[Any], ...], before: list[DatasetView]
) -> AsyncIterator[bytes]:
    stopping = asyncio.create_task(context.stopping.wait())
    coming: dict[asyncio.Task[Any], AsyncIterator[Any]] = {}
    try:
        yield b": decisions and alerts from now on\n\n"
        for view in before:
            for alert in alerts(None, view):
                yield _event(alert)
        coming = {_next(source): source for source in sources}
        while not stopping.done():
            done, _ = await asyncio.wait(
                {*coming, stopping}, timeout=_ALIVE_S, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                yield b": still here\n\n"
            for task in [task for task in coming if task in done]:
                source = coming.pop(task)
                try:
                    yield _event(task.result())
                except StopAsyncIteration:
                    return
                coming[_next(source)] = source
    finally:
        stopping.cancel()
        for task in coming:
            task.cancel()
        if coming:
            await asyncio.wait(coming)
        await _close(sources)


async def _close(sources: tuple[AsyncIterator[Any], ...]) -> None:
    for source in sources:
        close = getattr(source, "aclose", None)
        if close is not None:
            await close()


def _next(source: AsyncIterator[Any]) -> asyncio.Task[Any]:
    async def coming() -> Any:
        return await anext(source)

    return asyncio.create_task(coming())


def _event(happened: Decision | Alert) -> bytes:
    if isinstance(happened, Alert):
        place, kind = happened.alert_id, b"alert"
    else:
        partition = happened.source.partition if happened.source else 0
        place, kind = f"{partition}-{happened.partition_sequence}", b"decision"
    head = b"id: " + place.encode() + b"\nevent: " + kind
    return head + b"\ndata: " + encode(happened) + b"\n\n"
