"""Reads a gateway's event stream, and reconnects where it was cut."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import httpx

from streams.client.http.problems import check_certificate
from streams.client.requests.requests import error_text
from streams.errors import Unavailable

_CONNECT_S: Final = 5.0
_SILENCE_S: Final = 60.0  # a gateway sends a comment every 15 s
_GIVE_UP_S: Final = 30.0  # after the gateway stopped answering
_FIRST_PAUSE_S: Final = 0.1
_MAX_PAUSE_S: Final = 2.0
_LINE_END: Final = re.compile(rb"\r\n|\r|\n")


async def reconnecting_events(
    http: httpx.AsyncClient, check: Callable[[httpx.Response], Awaitable[None]], kind: str
) -> AsyncIterator[bytes]:
    """Yield the data of one kind of events, each once, across reconnections.

    Args:
        check: raises for an error status; Unavailable where a retry may help.
    Raises: Unavailable: the gateway does not answer, or not again within 30 seconds.
    """
    position = b""
    pause, cut_at = _FIRST_PAUSE_S, 0.0
    loop = asyncio.get_running_loop()
    while True:
        try:
            # Use a fresh connection per attempt: a pooled one may lead to a gateway that is
            # stopping, delay its stop, and get no answer.
            headers = {"Connection": "close"}
            if position:
                headers["Last-Event-ID"] = position.decode("latin-1")
            timeout = httpx.Timeout(_CONNECT_S, read=_SILENCE_S)
            async with http.stream("GET", "/events", headers=headers, timeout=timeout) as response:
                await check(response)
                pause, cut_at = _FIRST_PAUSE_S, 0.0
                async for event in events_in(response.aiter_bytes()):
                    position = event.get(b"id", position)
                    if event.get(b"event") == kind.encode():
                        yield event.get(b"data", b"")
            why = Unavailable(f"{http.base_url} ended the event stream. Connect again")
        except httpx.RequestError as error:
            check_certificate(error, str(http.base_url))
            why = Unavailable(
                f"{http.base_url} does not answer: {error_text(error)}. Check that the server runs"
            )
        except Unavailable as error:
            why = error
        cut_at = cut_at or loop.time()
        if not position or http.is_closed or loop.time() - cut_at > _GIVE_UP_S:
            raise why
        await asyncio.sleep(pause)
        pause = min(2 * pause, _MAX_PAUSE_S)


async def events_in(chunks: AsyncIterator[bytes]) -> AsyncIterator[dict[bytes, bytes]]:
    """Yield the fields of each complete event; an event without its empty line was cut."""
    event: dict[bytes, bytes] = {}
    async for line in _lines(chunks):
        if not line:
            if event:
                yield event
            event = {}
        elif not line.startswith(b":"):
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            more = name == b"data" and name in event
            event[name] = event[name] + b"\n" + value if more else value


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield each complete line of an event stream; lines end with CR, LF or both.

    Python splits text at other characters too, such as U+2028, which a name may contain.
    """
    rest, after_cr = b"", False
    async for chunk in chunks:
        if chunk:
            more = chunk.removeprefix(b"\n") if after_cr else chunk
            after_cr = more.endswith(b"\r")
            *whole, rest = _LINE_END.split(rest + more)
            for line in whole:
                yield line
