"""Guards: middleware that refuses a request before its route and its body."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final, cast

from litestar import Litestar, Response
from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

_GUARDS: Final = "guards"


class Guard(ABC):
    """Refuses some requests, and passes the others on.

    A request that is answered without the router passes the same guards, by `refuse` alone: a
    subclass that overrides `__call__` refuses nothing more there.

    Args:
        app: what the guard protects.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == ScopeType.HTTP:
            refused = await self.refuse(scope)
            if refused is not None:
                await answer(send, refused)
                return
        await self._app(scope, receive, send)

    @abstractmethod
    async def refuse(self, scope: HTTPScope) -> Response[Any] | None:
        """Return the answer to a refused request, None for one that may pass."""


def add_guard(app: Litestar, guard: Guard) -> None:
    """Have a guard run before all guards that the application has so far.

    Args:
        guard: made for `app.asgi_handler`.
    """
    app.asgi_handler = cast(ASGIApp, guard)
    app.state[_GUARDS] = (guard, *guards_of(app))


def guards_of(app: Litestar) -> tuple[Guard, ...]:
    """Return the application's guards in the order in which they run."""
    found: tuple[Guard, ...] = app.state.get(_GUARDS, ())
    return found


async def answer(send: Send, response: Response[Any], *more: tuple[bytes, bytes]) -> None:
    """Send a response without Litestar.

    Args:
        more: further headers.
    """
    kind = str(response.media_type)
    body = response.render(response.content, kind)
    if kind.startswith("text/"):
        kind += "; charset=utf-8"
    headers = [
        (b"content-type", kind.encode()),
        (b"content-length", str(len(body)).encode()),
        *((name.lower().encode(), value.encode()) for name, value in response.headers.items()),
        *more,
    ]
    start: Any = {"type": "http.response.start", "status": response.status_code, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": body, "more_body": False})
