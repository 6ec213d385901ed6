"""HEAD for every GET route, and a complete Allow header."""

from __future__ import annotations

from typing import Final, cast

from litestar import Litestar
from litestar.enums import ScopeType
from litestar.types import (
    ASGIApp,
    HTTPReceiveMessage,
    HTTPResponseBodyEvent,
    HTTPScope,
    Message,
    Receive,
    Scope,
    Send,
)

_ALLOW: Final = b"allow"
_NO_BODY: Final[HTTPResponseBodyEvent] = {
    "type": "http.response.body",
    "body": b"",
    "more_body": False,
}

Headers = list[tuple[bytes, bytes]]


def answer_head(app: Litestar) -> Litestar:
    """Make the application answer HEAD wherever it answers GET.

    Middleware covers future routes too. Routes see a GET; the server drops the body, and a stream
    ends after its headers.
    """
    methods = {route.path_format: {str(each) for each in route.methods} for route in app.routes}
    app.asgi_handler = cast(ASGIApp, _Methods(app.asgi_handler, methods))
    return app


class _Methods:
    def __init__(self, app: ASGIApp, methods: dict[str, set[str]]) -> None:
        self._app = app
        self._methods = methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == ScopeType.HTTP:
            await self._answer(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _answer(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        is_head = scope["method"] == "HEAD"
        get_scope = scope | {"method": "GET"} if is_head else scope
        has_begun = False

        async def received() -> HTTPReceiveMessage:
            # HEAD of a stream would run for ever; a disconnect ends it after the headers.
            if is_head and has_begun:
                return {"type": "http.disconnect"}
            return cast(HTTPReceiveMessage, await receive())

        async def sent(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                message["headers"] = self._with_allow(get_scope, list(message["headers"]))
                await send(message)
                if is_head:
                    await send(_NO_BODY)
            elif not is_head:
                await send(message)

        await self._app(get_scope, cast(Receive, received), sent)

    def _with_allow(self, scope: HTTPScope, headers: Headers) -> Headers:
        """Return the headers with a complete Allow.

        Litestar's own Allow omits methods registered after a path's first handler.
        """
        allowed = dict(headers).get(_ALLOW)
        if allowed is None:
            return headers
        known = self._methods.get(scope.get("path_template", ""))
        methods = known or set(allowed.decode().split(", "))
        if "GET" in methods:
            methods = methods | {"HEAD"}
        others = [(name, value) for name, value in headers if name != _ALLOW]
        return [*others, (_ALLOW, ", ".join(sorted(methods)).encode())]
