"""One plain request and its response. Where either proves not to be plain, h11 takes over."""

from __future__ import annotations

from typing import Any, Final, cast

import h11
from litestar.types import HTTPResponseStartEvent
from uvicorn.protocols.http.h11_impl import RequestResponseCycle

from streams.server.plain_http import PlainHead, PlainRequest, response_head

_WHOLE: Final = 0


class PlainCycle(RequestResponseCycle):
    """uvicorn's cycle of a request, whose bytes h11 has not seen.

    It writes a response of known length as one piece. For any other response, and for one that
    does not wait for the request's body, it gives h11 the bytes received so far, and is a cycle of
    uvicorn's from then on.

    Args:
        request: the head of the request.
        received: all bytes from the head on.
        parts: as of uvicorn's cycle.

    Attributes:
        is_plain: h11 has not taken over.
    """

    def __init__(self, request: PlainRequest, received: bytes, **parts: Any) -> None:
        super().__init__(**parts)
        self.is_plain = True
        self._received: list[bytes] = []
        self._missing = request.head + request.length
        self._next = bytearray()
        self._start: HTTPResponseStartEvent | None = None
        self._head: PlainHead | None = None
        self._take(received, request.head)

    def add(self, data: bytes) -> None:
        """Take more of the body, or of the requests after it."""
        self._take(data, _WHOLE)
        if self._next:
            self.flow.pause_reading()

    def _take(self, data: bytes, head: int) -> None:
        own, rest = data[: self._missing], data[self._missing :]
        self._next += rest
        if own:
            self._received.append(own)
            self._missing -= len(own)
            self.body += own[head:]
            self.more_body = self._missing > 0
            self.message_event.set()

    def take_next(self) -> bytes:
        """Return the bytes after this request, once."""
        found, self._next = bytes(self._next), bytearray()
        return found

    async def send(self, message: Any) -> None:
        """Send a message of the application, as uvicorn's cycle."""
        if not self.is_plain:
            await super().send(message)
        elif self._start is None:
            await self._send_head(message)
        else:
            await self._send_body(message)

    async def _send_head(self, message: Any) -> None:
        # A client that still sends its body, and a server that stops, are h11's matter.
        is_plain = self.keep_alive and not self.more_body and not self.disconnected
        if is_plain and message["type"] == "http.response.start":
            self._head = response_head(
                message["status"], [*self.default_headers, *message["headers"]]
            )
        if self._head is None:
            await self._send_by_h11(message)
        else:
            self._start = message
            self.response_started = True

    async def _send_body(self, message: Any) -> None:
        assert self._head is not None
        body = message.get("body", b"")
        is_last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if self.response_complete or not is_last or len(body) != self._head.length:
            await self._send_by_h11(message)
            return
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        self.transport.write(self._head.text + body)
        self.response_complete = True
        self._received.clear()  # an idle connection keeps its last cycle
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()

    async def _send_by_h11(self, message: Any) -> None:
        self._hand_over()
        if self._start is not None and not self.response_complete:
            self.response_started = False
            await super().send(cast("Any", self._start))
        await super().send(message)

    def _hand_over(self) -> None:
        """Give h11 the bytes of the request, which it reads as this class has read them."""
        self.is_plain = False
        if self.disconnected or self.response_complete:
            return
        self.conn.receive_data(b"".join(self._received))
        event: Any = None
        while event is not h11.NEED_DATA and not isinstance(event, h11.EndOfMessage):
            event = self.conn.next_event()
        if self._next:
            self.conn.receive_data(self.take_next())
