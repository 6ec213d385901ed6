"""Authentication middleware. It runs before routing, so new routes are protected by default."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol, cast

from litestar import Litestar, Response
from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from streams.auth.authenticator import Authenticator
from streams.auth.principal import KEY, Principal, Scraper
from streams.clock import steady
from streams.http.guard import Guard, add_guard, answer
from streams.http.refusal import Refusal, not_permitted, refusal_response
from streams.telemetry.trace_context import current_exchange

HEALTH: Final = frozenset({"/healthz", "/healthz/metrics", "/readyz"})
"""Public paths; an unauthenticated caller learns the state alone, no reason."""
METRICS: Final = "/metrics"
_RECHECK_S: Final = 5.0

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Headers = Iterable[tuple[bytes, bytes]]


class BrowserAuth(Protocol):
    """Authenticates browsers on the pages' paths, by a session cookie.

    Attributes:
        open: public paths of the pages.
    """

    open: frozenset[str]

    async def credentials(self, scope: HTTPScope) -> Headers:
        """Return the headers for the authenticator: a session's token replaces the cookie."""
        ...

    def resolve(self, scope: HTTPScope, found: Principal | Refusal) -> Principal | Refusal:
        """Return the final outcome, given what the authenticator found for `credentials`."""
        ...

    def refusal_page(self, scope: HTTPScope, refusal: Refusal) -> Response[Any] | None:
        """Return the answer for an unauthenticated browser, None on paths of programs."""
        ...


def add_authentication(
    app: Litestar,
    authenticator: Authenticator | None,
    proxies: Sequence[Network] = (),
    browsers: BrowserAuth | None = None,
) -> Litestar:
    """Wrap the application in middleware that checks each request before its route and its body.

    Args:
        authenticator: None where authentication is off.
        proxies: if there are any, only they and this machine may connect.
        browsers: the pages' sessions, None without pages.
    """
    if authenticator is not None:
        app.state["authenticator"] = authenticator
        add_guard(app, _AuthMiddleware(app.asgi_handler, authenticator, browsers))
    if proxies:
        add_guard(app, _ProxyOnly(app.asgi_handler, proxies))
    return app


class _ProxyOnly(Guard):
    """Rejects requests that bypass the proxy; health probes may come from anywhere.

    A request that bypassed the proxy also bypassed TLS, which the proxy ends.
    """

    def __init__(self, app: ASGIApp, proxies: Sequence[Network]) -> None:
        super().__init__(app)
        self._is_trusted = lru_cache(1024)(_TrustedPeers(proxies))

    async def refuse(self, scope: HTTPScope) -> Response[Any] | None:
        if scope["path"] in HEALTH or self._is_trusted(peer_of(scope)):
            return None
        return not_permitted(
            "this server accepts connections from its proxy only: use the proxy's URL"
        )


class _TrustedPeers:
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


class _AuthMiddleware(Guard):
    """Rejects every request without a valid token, except on public paths."""

    def __init__(
        self, app: ASGIApp, authenticator: Authenticator, browsers: BrowserAuth | None
    ) -> None:
        super().__init__(app)
        self._authenticator = authenticator
        self._browsers = browsers
        # Compare the exact path: any other spelling of a public path stays protected.
        self._open = HEALTH | ({METRICS} if authenticator.metrics_are_open else frozenset())
        if browsers is not None:
            self._open |= browsers.open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            return  # only HTTP is served; a WebSocket must not reach a route unauthenticated
        refused = await self.refuse(scope)
        if refused is not None:
            await answer(send, refused)
        elif scope["path"] in self._open:
            await self._app(scope, receive, send)
        else:
            await _RevocableResponse(self, scope, receive, send).answer()

    async def refuse(self, scope: HTTPScope) -> Response[Any] | None:
        """Store the caller in the scope; return the answer to one who must be known, and is not."""
        if scope["path"] in self._open:
            await self._identify_if_possible(scope)
            return None
        found = await self._authenticate(scope)
        if isinstance(found, Refusal):
            page = None if self._browsers is None else self._browsers.refusal_page(scope, found)
            return refusal_response(found) if page is None else page
        _set(scope, found)
        return None

    async def _identify_if_possible(self, scope: HTTPScope) -> None:
        """Store the caller on a public path. A valid token identifies them, and they see more."""
        _set(scope, None)
        headers = await self._credentials(scope)
        if any(name == b"authorization" for name, _ in headers):
            found = await self._authenticate(scope)
            _set(scope, found if isinstance(found, Principal) else None)

    async def _authenticate(self, scope: HTTPScope) -> Principal | Scraper | Refusal:
        if _is_scrape(scope):
            headers, peer = scope["headers"], peer_of(scope)
            return await self._authenticator.authenticate_scrape(headers, peer=peer)
        headers = await self._credentials(scope)
        found = await self._authenticator.authenticate(headers, peer=peer_of(scope))
        return found if self._browsers is None else self._browsers.resolve(scope, found)

    async def _credentials(self, scope: HTTPScope) -> Headers:
        if self._browsers is None:
            return scope["headers"]
        return await self._browsers.credentials(scope)

    async def is_still_valid(self, scope: HTTPScope) -> bool:
        """Tell whether a request's token is still valid, and for the same principal."""
        return bool(await self._authenticate(scope) == cast(Any, scope)[KEY])

    async def run(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        """Pass an authenticated request on to its route."""
        await self._app(scope, receive, send)


class _Revoked(Exception):
    """The token became invalid while its response was being sent."""


class _RevocableResponse:
    """A response that ends when its token becomes invalid.

    Without it, an open stream of events would outlast a revocation.
    """

    def __init__(
        self, middleware: _AuthMiddleware, scope: HTTPScope, receive: Receive, send: Send
    ) -> None:
        self._middleware = middleware
        self._scope, self._receive, self._send = scope, receive, send
        self._checked_at = steady()
        self._is_revoked = False

    async def answer(self) -> None:
        """Answer the request, for as long as its token is valid."""
        try:
            await self._middleware.run(self._scope, self._receive, self._send_checked)
        except Exception:
            # After a revocation the route fails with whatever `_Revoked` became on its way.
            if not self._is_revoked:
                raise

    async def _send_checked(self, message: Message) -> None:
        is_stream = message["type"] == "http.response.body" and message.get("more_body", False)
        if is_stream and steady() - self._checked_at >= _RECHECK_S:
            self._checked_at = steady()
            if not await self._middleware.is_still_valid(self._scope):
                self._is_revoked = True
                # Ended properly, not cut: a client that lost its token must not just retry.
                last: Any = {"type": "http.response.body", "body": b"", "more_body": False}
                await self._send(last)
                raise _Revoked
        await self._send(message)


def _is_scrape(scope: HTTPScope) -> bool:
    """Tell whether the metrics token may be valid: by method and exact path."""
    return scope["method"] == "GET" and scope["path"] == METRICS


def _set(scope: HTTPScope, caller: Principal | Scraper | None) -> None:
    cast(Any, scope)[KEY] = caller
    exchange = current_exchange()
    if exchange is not None:
        exchange.caller = caller.name if isinstance(caller, Principal) else None


def peer_of(scope: HTTPScope) -> str:
    """Return the address at the other end of the connection; headers can be forged."""
    client = scope["client"]
    return "" if client is None else client[0]
