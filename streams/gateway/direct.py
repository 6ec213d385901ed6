"""Answers usual requests at `POST /requests` without Litestar's router and request classes.

Litestar takes four times as long as the rest of a request. Only what every client sends comes
here: one JSON body of stated length, each header once. Litestar answers everything else, refusals
of headers included, so this module has no rules of its own. Both pass the application's guards,
and both call `submit_body`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, cast

from litestar import Litestar, Request, Response
from litestar.enums import ScopeType
from litestar.exceptions import InternalServerException
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

from accountant.records.kinds import REQUEST
from streams.gateway.replay import asks_for_replay
from streams.gateway.submit import submit_body, wait_of
from streams.http.context import HttpRequest
from streams.http.guard import Guard, answer, guards_of
from streams.http.host_header import names_loopback
from streams.http.no_store import NO_STORE
from streams.http.problems import JSON, response_to

_PATH: Final = "/requests"
_JSON: Final = JSON.encode()
_HOST: Final = re.compile(rb"[0-9A-Za-z.:\[\]_-]{1,255}")
_LENGTH: Final = re.compile(rb"[0-9]{1,9}")


def answer_directly(app: Litestar, *, most_body: int, only_loopback: bool) -> Litestar:
    """Wrap an application with all of its middleware.

    Args:
        most_body: bytes of the longest body.
        only_loopback: Host must name this machine, as `host_check` demands.
    """
    direct = _Direct(app.asgi_handler, guards_of(app), most_body, only_loopback)
    app.asgi_handler = cast(ASGIApp, direct)
    return app


class _Direct:
    def __init__(
        self, app: ASGIApp, guards: Sequence[Guard], most_body: int, only_loopback: bool
    ) -> None:
        self._app = app
        self._guards = guards
        self._most_body = most_body
        self._is_host = lru_cache(64)(_IsHost(only_loopback))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == ScopeType.HTTP and scope["path"] == _PATH and self._is_usual(scope):
            # Neither is the method HEAD, nor has a response a header Allow, or its own caching.
            await answer(send, await self._respond(scope, receive, send), NO_STORE)
        else:
            await self._app(scope, receive, send)

    async def _respond(self, scope: HTTPScope, receive: Receive, send: Send) -> Response[Any]:
        for guard in self._guards:
            refused = await guard.refuse(scope)
            if refused is not None:
                return refused
        cast(Any, scope)["path_template"] = _PATH
        request: HttpRequest = Request(scope, receive, send)
        try:
            prefer = _header(scope, b"prefer")
            return await submit_body(
                request,
                REQUEST,
                await _body(receive),
                wait=wait_of(prefer),
                replays=asks_for_replay(prefer),
            )
        except Exception as error:
            return response_to(request, error)

    def _is_usual(self, scope: HTTPScope) -> bool:
        """Tell whether Litestar would pass a request on to its handler, by its head alone."""
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"")
        return (
            scope["method"] == "POST"
            and not scope["root_path"]
            and not scope["query_string"]
            and len(headers) == len(cast(Any, scope["headers"]))
            and headers.get(b"content-type") == _JSON
            and b"content-encoding" not in headers
            and self._is_host(headers.get(b"host", b"")[:256])
            and _LENGTH.fullmatch(length) is not None
            and int(length) <= self._most_body
        )


class _IsHost:
    def __init__(self, only_loopback: bool) -> None:
        self._only_loopback = only_loopback

    def __call__(self, host: bytes) -> bool:
        is_host = _HOST.fullmatch(host) is not None
        return is_host and (not self._only_loopback or names_loopback(host.decode()))


def _header(scope: HTTPScope, wanted: bytes) -> str:
    for name, value in scope["headers"]:
        if name == wanted:
            return value.decode("latin-1")
    return ""


async def _body(receive: Receive) -> bytes:
    """Return the whole body; the server has compared its length with the stated one.

    Raises: HTTPException: the client has left.
    """
    body: bytes = b""
    while True:
        message = cast(Any, await receive())
        if message["type"] == "http.disconnect":
            raise InternalServerException("client disconnected prematurely")
        body += message["body"]
        if not message.get("more_body", False):
            return body
