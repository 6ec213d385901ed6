"""Listens on this machine alone for the browser that comes back from the provider."""

from __future__ import annotations

import asyncio
import hmac
import re
from html import escape
from types import TracebackType
from typing import Final, NamedTuple, Self
from urllib.parse import parse_qsl

from streams.errors import Refused

HOST: Final = "127.0.0.1"
PATH: Final = "/callback"
_MOST_HEAD: Final = 16 * 1024
_HEAD_S: Final = 5.0
_MOST_CONNECTIONS: Final = 32
_MOST_FIELDS: Final = 20
_REQUEST: Final = re.compile(r"([A-Z]{1,16}) (/[\x21-\x7e]*) HTTP/1\.[01]")
_HEADERS: Final = (
    "Content-Type: text/html; charset=utf-8\r\n"
    "Cache-Control: no-store\r\n"
    "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Connection: close\r\n"
)


class _AnswerPage(NamedTuple):
    status: str
    words: str


_ANSWERED: Final = _AnswerPage(
    "200 OK", "You may close this page. The terminal says whether you are signed in."
)
_NOT_FOUND: Final = _AnswerPage("404 Not Found", "There is nothing at this address.")
_ONLY_GET: Final = _AnswerPage("405 Method Not Allowed", "Only GET is answered here.")
_OTHER_HOST: Final = _AnswerPage("421 Misdirected Request", "This address has another host name.")
_UNREADABLE: Final = _AnswerPage("400 Bad Request", "This request cannot be read.")
_OTHER_SIGN_IN: Final = _AnswerPage(
    "403 Forbidden",
    "This page belongs to another sign-in. Open the address that the terminal shows.",
)
_USED: Final = _AnswerPage("410 Gone", "This sign-in has been answered already.")


class LoopbackListener:
    """Waits for one answer to one sign-in; everything else is rejected, and waiting continues.

    Only a request with this sign-in's `state` counts, so no other page can end or take it over.

    Args:
        state: the random text that the provider sends back.
        port: a TCP port, 0 for a free one.
    """

    def __init__(self, state: str, port: int = 0) -> None:
        self._state = state
        self._port = port
        self._connections = 0

    async def __aenter__(self) -> Self:
        self._answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        try:
            # By address: a name could be resolved to one that other machines reach.
            self._server = await asyncio.start_server(
                self._serve, HOST, self._port, limit=_MOST_HEAD
            )
        except OSError as error:
            raise Refused(
                f"port {self._port} of {HOST} cannot be used: {error.strerror or error}. Choose "
                "another with --port"
            ) from error
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._server.close()

    @property
    def url(self) -> str:
        """The address to which the provider sends the browser back."""
        return f"http://{HOST}:{self._port}{PATH}"

    async def receive(self) -> dict[str, str]:
        """Wait for the provider's answer, and return its fields."""
        return await self._answer

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            if self._connections <= _MOST_CONNECTIONS:
                async with asyncio.timeout(_HEAD_S):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(_response(self._page(head.decode("latin-1"))))
                    await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a browser opens connections that it does not use
        finally:
            self._connections -= 1
            writer.close()

    def _page(self, head: str) -> _AnswerPage:
        """Take the provider's answer from a request, and return what its browser shows."""
        first, *headers = head.split("\r\n")
        request = _REQUEST.fullmatch(first)
        if request is None:
            return _UNREADABLE
        hosts = [line[5:].strip() for line in headers if line[:5].lower() == "host:"]
        if hosts != [f"{HOST}:{self._port}"]:  # a foreign name that resolves to this machine
            return _OTHER_HOST
        method, target = request.groups()
        path, _, query = target.partition("?")
        if path != PATH:
            return _NOT_FOUND
        if method != "GET":
            return _ONLY_GET
        return self._take(query)

    def _take(self, query: str) -> _AnswerPage:
        try:
            pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
        except ValueError:
            return _UNREADABLE
        fields = dict(pairs)
        if len(fields) != len(pairs):
            return _UNREADABLE  # of two values, either could be the forged one
        if not hmac.compare_digest(fields.get("state", "").encode(), self._state.encode()):
            return _OTHER_SIGN_IN
        if self._answer.done():
            return _USED
        self._answer.set_result(fields)
        return _ANSWERED


def _response(page: _AnswerPage) -> bytes:
    body = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>accountant login</title>'
        f"<p>{escape(page.words)}</p></html>\n"
    ).encode()
    head = f"HTTP/1.1 {page.status}\r\n{_HEADERS}Content-Length: {len(body)}\r\n\r\n"
    return head.encode("ascii") + body
