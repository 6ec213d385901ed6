"""`Cache-Control: no-store` on every response that does not state its own caching."""

from __future__ import annotations

from typing import Final, cast

from litestar import Litestar
from litestar.types import ASGIApp, Message, Receive, Scope, Send

NO_STORE: Final = (b"cache-control", b"no-store")
_NAME: Final = NO_STORE[0]


def forbid_caching(app: Litestar) -> Litestar:
    """Keep proxies and browsers from storing responses: each is for one caller, at one moment.

    This is middleware, so that it covers refusals before routing, and future routes.
    """
    app.asgi_handler = cast(ASGIApp, _NoStore(app.asgi_handler))
    return app


class _NoStore:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message["headers"])
                if not any(name.lower() == _NAME for name, _ in headers):
                    message["headers"] = [*headers, NO_STORE]
            await send(message)

        await self._app(scope, receive, sent)
