"""Nobody passes whom the door does not know: in front of every route, also of those to come."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol, cast

from litestar import Litestar, Response
from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from streams.auth.authenticator import Authenticator
from streams.auth.principal import KEY, Principal
from streams.clock import steady
from streams.http.refusal import Refusal, not_permitted, told

HEALTH: Final = frozenset({"/healthz", "/readyz"})
"""Open to strangers, whom they tell nothing but that alone."""
METRICS: Final = "/metrics"
_AGAIN_S: Final = 5.0

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Headers = Iterable[tuple[bytes, bytes]]


class Knows(Protocol):
    """What knows browsers, which send a cookie to pages; there alone it may be a token's.

    Attributes:
        open: paths that are open to strangers.
    """

    open: frozenset[str]

    def credentials(self, scope: HTTPScope) -> Headers:
        """Return the headers by which who asks is to be known."""
        ...

    def settled(self, scope: HTTPScope, found: Principal | Refusal) -> Principal | Refusal:
        """Return who asks, once it was looked at what `credentials` returned."""
        ...

    def told(self, scope: HTTPScope, refusal: Refusal) -> Response[Any] | None:
        """Return what a browser is told that is not let in, None for what programs are told."""
        ...


def guarded(
    app: Litestar,
    authenticator: Authenticator | None,
    proxies: Sequence[Network] = (),
    browsers: Knows | None = None,
) -> Litestar:
    """Return the application behind what looks at each request before its route and its body.

    Args:
        authenticator: None where authentication is off.
        proxies: where there are some, nobody else but this machine may ask.
        browsers: what knows them, None where there are no pages.
    """
    if authenticator is not None:
        app.state["authenticator"] = authenticator
        app.asgi_handler = cast(ASGIApp, _KnownCaller(app.asgi_handler, authenticator, browsers))
    if proxies:
        app.asgi_handler = cast(ASGIApp, _Proxied(app.asgi_handler, proxies))
    return app


class _Proxied:
    """Lets in what comes by a proxy, or from this machine; health is asked from anywhere."""

    def __init__(self, app: ASGIApp, proxies: Sequence[Network]) -> None:
        self._app = app
        self._is_trusted = lru_cache(1024)(_Trust(proxies))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == ScopeType.HTTP:
            trusted = scope["path"] in HEALTH or self._is_trusted(peer_of(scope))
            if not trusted:
                await answer(send, not_permitted("this door is reached through its proxy alone"))
                return
        await self._app(scope, receive, send)


class _Trust:
    def __init__(self, proxies: Sequence[Network]) -> None:
        self._proxies = proxies

    def __call__(self, peer: str) -> bool:
        try:
            address = ipaddress.ip_address(peer)
        except ValueError:
            return False
        if isinstance(address, ipaddress.IPv6Address):
            address = address.ipv4_mapped or address
        return address.is_loopback or any(address in network for network in self._proxies)


class _KnownCaller:
    """Finds out who asks, and turns away whoever is not known."""

    def __init__(self, app: ASGIApp, authenticator: Authenticator, browsers: Knows | None) -> None:
        self._app = app
        self._authenticator = authenticator
        self._browsers = browsers
        # By the path as it was sent: another way to write it is not open.
        self._open = HEALTH | ({METRICS} if authenticator.metrics_are_open else frozenset())
        if browsers is not None:
            self._open |= browsers.open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            return  # there is nothing but HTTP, and what comes one day is closed
        if scope["path"] in self._open:
            await self._let_in(scope, receive, send)
            return
        found = await self._asked(scope)
        if not isinstance(found, Principal):
            page = None if self._browsers is None else self._browsers.told(scope, found)
            await answer(send, told(found) if page is None else page)
            return
        _set(scope, found)
        await _RevocableResponse(self, scope, receive, send).answer()

    async def _let_in(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        """Answer on a path that is open, to who is known as to a known one."""
        _set(scope, None)
        if any(name == b"authorization" for name, _ in self._credentials(scope)):
            found = await self._asked(scope)
            _set(scope, found if isinstance(found, Principal) else None)
        await self._app(scope, receive, send)

    async def _asked(self, scope: HTTPScope) -> Any:
        given = self._credentials(scope)
        found = await self._authenticator.authenticate(given, peer=peer_of(scope))
        return found if self._browsers is None else self._browsers.settled(scope, found)

    def _credentials(self, scope: HTTPScope) -> Headers:
        return scope["headers"] if self._browsers is None else self._browsers.credentials(scope)

    async def is_still(self, scope: HTTPScope) -> bool:
        """Tell whether the token of a request still holds, and for the same principal."""
        return bool(await self._asked(scope) == cast(Any, scope)[KEY])

    async def run(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        """Hand a request of somebody known to its route."""
        await self._app(scope, receive, send)


class _Ended(Exception):
    """The token does not hold any more."""


class _RevocableResponse:
    """An answer that ends once its token does: a stream would outlast every revocation."""

    def __init__(self, door: _KnownCaller, scope: HTTPScope, receive: Receive, send: Send) -> None:
        self._door = door
        self._scope, self._receive, self._send = scope, receive, send
        self._looked = steady()
        self._has_ended = False

    async def answer(self) -> None:
        """Answer the request, for as long as its token holds."""
        try:
            await self._door.run(self._scope, self._receive, self._sent)
        except Exception:
            if not self._has_ended:
                raise

    async def _sent(self, message: Message) -> None:
        lasts = message["type"] == "http.response.body" and message.get("more_body", False)
        if lasts and steady() - self._looked >= _AGAIN_S:
            self._looked = steady()
            if not await self._door.is_still(self._scope):
                self._has_ended = True
                last: Any = {"type": "http.response.body", "body": b"", "more_body": False}
                await self._send(last)
                raise _Ended
        await self._send(message)


def _set(scope: HTTPScope, principal: Principal | None) -> None:
    cast(Any, scope)[KEY] = principal


def peer_of(scope: HTTPScope) -> str:
    """Return the address at the other end of the connection, whatever a header says."""
    client = scope["client"]
    return "" if client is None else client[0]


async def answer(send: Send, response: Response[Any]) -> None:
    """Answer before anything of the body is read."""
    kind = str(response.media_type)
    body = response.render(response.content, kind)
    if kind.startswith("text/"):
        kind += "; charset=utf-8"
    headers = [
        (b"content-type", kind.encode()),
        (b"content-length", str(len(body)).encode()),
        *((name.lower().encode(), value.encode()) for name, value in response.headers.items()),
    ]
    start: Any = {"type": "http.response.start", "status": response.status_code, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": body, "more_body": False})
