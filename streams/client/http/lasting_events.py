"""A gateway's events as a client reads them: a stream that is cut goes on where it ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import httpx

from streams.client.http.problems import check_certificate
from streams.client.requests import words
from streams.errors import Unavailable

_CONNECT_S: Final = 5.0
_SILENT_S: Final = 60.0  # a gateway says every 15 s that it is there
_PATIENCE_S: Final = 30.0  # with a gateway that is away
_FIRST_PAUSE_S: Final = 0.1
_MOST_PAUSE_S: Final = 2.0


async def lasting_events(
    http: httpx.AsyncClient, check: Callable[[httpx.Response], Awaitable[None]], kind: str
) -> AsyncIterator[str]:
    """Yield the data of one kind of events, none lost and none twice, wherever the stream is cut.

    Args:
        check: raises what an answer's status means; Unavailable where another try may help.
    Raises: Unavailable: the gateway does not answer, or not again within 30 seconds.
    """
    position = ""
    pause, cut_at = _FIRST_PAUSE_S, 0.0
    loop = asyncio.get_running_loop()
    while True:
        try:
            # Each try by a connection of its own: one that is kept may lead to a gateway that is
            # stopping, hold it up, and then be answered by nobody.
            headers = {"Connection": "close"}
            if position:
                headers["Last-Event-ID"] = position
            timeout = httpx.Timeout(_CONNECT_S, read=_SILENT_S)
            async with http.stream("GET", "/events", headers=headers, timeout=timeout) as response:
                await check(response)
                pause, cut_at = _FIRST_PAUSE_S, 0.0
                async for event in _events(response):
                    position = event.get("id", position)
                    if event.get("event") == kind:
                        yield event["data"]
            why = Unavailable(f"{http.base_url} has ended the stream of events")
        except httpx.RequestError as error:
            check_certificate(error, str(http.base_url))
            why = Unavailable(f"{http.base_url} does not answer: {words(error)}")
        except Unavailable as error:
            why = error
        cut_at = cut_at or loop.time()
        if not position or http.is_closed or loop.time() - cut_at > _PATIENCE_S:
            raise why
        await asyncio.sleep(pause)
        pause = min(2 * pause, _MOST_PAUSE_S)


async def _events(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """Yield the fields of each whole event: what has no empty line after it was cut."""
    event: dict[str, Any] = {}
    async for line in response.aiter_lines():
        if not line:
            if event:
                yield event
            event = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(": ")
            event[name] = value
