"""How many requests one address may send a second: a limit of the door, never of what decides.

It is for a program that runs wild, so that the others are served, and guards no budget.
"""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, cast

from litestar import Litestar
from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send
from prometheus_client import CollectorRegistry, Counter

from streams.clock import steady
from streams.http.host_header import is_loopback
from streams.http.problems import PROBLEM_JSON, problem
from streams.settings import Settings

AT_ONCE: Final = 10
"""Seconds' worth of requests that an address may send at once after it was silent."""
MOST_ADDRESSES: Final = 65_536
"""Addresses that are remembered; the one longest silent is forgotten first."""
_PROBES: Final = frozenset({"/healthz", "/readyz"})
_OF_PROXIES: Final = frozenset({b"x-forwarded-for", b"forwarded", b"x-real-ip"})
_PEER: Final = "peer"
_SECOND: Final = 1_000_000_000

Monotonic = Callable[[], float]


class RateLimiter:
    """Counts by key, in one number each: the time at which all that was admitted is used up.

    Args:
        per_second: requests of one key, on average.
        now: seconds of a clock that only rises.
    """

    def __init__(self, per_second: float, now: Monotonic = steady) -> None:
        self._each = round(_SECOND / per_second)  # in nanoseconds, so that sums are exact
        self._ahead = max(0, AT_ONCE * _SECOND - self._each)
        self._now = now
        self._used_up: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._used_up)

    def wait(self, key: str) -> float:
        """Admit a request and return 0, or return after how many seconds one would be admitted."""
        now = round(self._now() * _SECOND)
        used_up = max(now, self._used_up.pop(key, now))
        wait = used_up - now - self._ahead
        self._used_up[key] = used_up if wait > 0 else used_up + self._each
        if len(self._used_up) > MOST_ADDRESSES:
            self._used_up.popitem(last=False)
        return max(0, wait) / _SECOND


def limited(
    app: Litestar,
    settings: Settings,
    registry: CollectorRegistry,
    now: Monotonic = steady,
) -> Litestar:
    """Return the application, which answers an address that asks too often with 429."""
    alone = is_loopback(settings.listens_at) and settings.limit_by is None
    if settings.limit_per_second and not alone:
        limit = RateLimiter(settings.limit_per_second, now)
        app.asgi_handler = cast(
            ASGIApp, _Limited(app.asgi_handler, limit, settings.limit_by, registry)
        )
    return app


class _Limited:
    def __init__(
        self, app: ASGIApp, limit: RateLimiter, by: str | None, registry: CollectorRegistry
    ) -> None:
        self._app = app
        self._limit = limit
        self._by = by
        self._refused = Counter(
            "privacy_http_limited_requests",
            "Requests answered with 429: their address has sent too many.",
            registry=registry,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wait = 0.0
        if scope["type"] == ScopeType.HTTP and scope["path"] not in _PROBES:
            address = address_of(scope, self._by)
            wait = 0.0 if address is None else self._limit.wait(address)
        if wait <= 0:
            await self._app(scope, receive, send)
            return
        self._refused.inc()
        await _refuse(send, wait)


async def _refuse(send: Send, wait: float) -> None:
    """Answer before anything of the body is read."""
    seconds = math.ceil(wait)
    what = f"too many requests from this address: send it again after {seconds} s"
    body = problem(429, "too_many_requests", what).content
    headers = [
        (b"content-type", PROBLEM_JSON.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"retry-after", str(seconds).encode()),
    ]
    await send({"type": "http.response.start", "status": 429, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def address_of(scope: HTTPScope, by: str | None) -> str | None:
    """Return whose request it is, None if it is not to be counted.

    This machine's own are not. Where no setting says by what to tell clients apart, neither are
    those with a header of a proxy: all its clients would wait for the one that asks most.

    Args:
        by: `peer`, or the header in which a proxy names the client, None if neither was said.
    """
    client = scope["client"]
    peer = None if client is None else _network(client[0])
    if by is None:
        is_forwarded = any(name in _OF_PROXIES for name, _ in scope["headers"])
        return None if is_forwarded else peer
    if by == _PEER:
        return peer
    wanted = by.lower().encode("ascii")
    values = [value for name, value in scope["headers"] if name == wanted]
    # A proxy adds to the end: what stands before it, the client may have written itself.
    named = values[-1].rpartition(b",")[2].decode("latin-1").strip() if values else ""
    return _network(named) or peer


def _network(text: str) -> str | None:
    """Return the address that a text names, of IPv6 its /64; None if it is none to be counted."""
    host = text
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        address = address.ipv4_mapped or address
    if address.is_loopback:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
    return str(address)
