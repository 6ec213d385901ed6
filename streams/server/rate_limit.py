"""The rate limits of HTTP requests: by name for authenticated callers, else by client address.

They protect other clients from a runaway program. They protect no budget: the ledger does that.
"""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, cast

from litestar import Litestar, Response
from litestar.types import ASGIApp, HTTPScope
from prometheus_client import CollectorRegistry, Counter

from streams.auth.principal import KEY as PRINCIPAL
from streams.auth.principal import Principal
from streams.clock import steady
from streams.http.guard import Guard, add_guard
from streams.http.host_header import is_loopback
from streams.http.problems import problem
from streams.http.request_quota import KEY as QUOTA
from streams.settings import Settings

AT_ONCE: Final = 10
"""Size of a burst after silence, in seconds' worth of requests."""
MOST_ADDRESSES: Final = 65_536
"""Addresses in memory, and names; the least recently seen one is evicted."""
# Not /healthz/metrics: it reads files, and no supervisor waits for it.
_PROBES: Final = frozenset({"/healthz", "/readyz"})
_OF_PROXIES: Final = frozenset({b"x-forwarded-for", b"forwarded", b"x-real-ip"})
_PEER: Final = "peer"
_SECOND: Final = 1_000_000_000

Monotonic = Callable[[], float]


class RateLimiter:
    """A token bucket per key, stored as one number: the time at which the bucket is full again.

    Args:
        per_second: the average rate of requests for one key.
        now: monotonic seconds.
    """

    def __init__(self, per_second: float, now: Monotonic = steady) -> None:
        self._each = round(_SECOND / per_second)  # in nanoseconds, so that sums are exact
        self._ahead = max(0, AT_ONCE * _SECOND - self._each)
        self._now = now
        self._used_up: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._used_up)

    def wait(self, key: str) -> float:
        """Admit a request and return 0, or return the seconds until one would be admitted."""
        now = round(self._now() * _SECOND)
        used_up = max(now, self._used_up.pop(key, now))
        wait = used_up - now - self._ahead
        self._used_up[key] = used_up if wait > 0 else used_up + self._each
        if len(self._used_up) > MOST_ADDRESSES:
            self._used_up.popitem(last=False)
        return max(0, wait) / _SECOND

    def give_back(self, key: str) -> None:
        """Uncount one admitted request."""
        if key in self._used_up:
            self._used_up[key] -= self._each


def add_rate_limit(
    app: Litestar,
    settings: Settings,
    registry: CollectorRegistry,
    now: Monotonic = steady,
) -> Litestar:
    """Wrap the application in middleware that answers 429 to an address that asks too often."""
    alone = is_loopback(settings.listens_at) and settings.limit_by is None
    if settings.limit_per_second and not alone:
        limit = RateLimiter(settings.limit_per_second, now)
        add_guard(app, _Limited(app.asgi_handler, limit, settings.limit_by, registry))
    return app


def add_name_limit(
    app: Litestar,
    settings: Settings,
    registry: CollectorRegistry,
    now: Monotonic = steady,
) -> Litestar:
    """Wrap the application in middleware that answers 429 to a caller that asks too often.

    Add it before authentication: it needs the caller's name.
    """
    if settings.authenticates:
        rate = settings.limit_per_name
        limit = RateLimiter(rate, now) if rate else None
        add_guard(app, _LimitedByName(app.asgi_handler, limit, registry))
    return app


class _Quota:
    """The rate limit of one address, or of one authenticated caller.

    Args:
        whose: the address or caller, in words.
    """

    def __init__(self, limit: RateLimiter, key: str, whose: str, refused: Counter) -> None:
        self._limit = limit
        self._key = key
        self._whose = whose
        self._refused = refused

    def charge(self) -> Response[bytes] | None:
        wait = self._limit.wait(self._key)
        if wait <= 0:
            return None
        self._refused.inc()
        return _too_many(self._whose, wait)

    def give_back(self) -> None:
        """Uncount a request that is counted elsewhere."""
        self._limit.give_back(self._key)


class _LimitedByName(Guard):
    """Counts an authenticated request by its caller's name, and no longer by its address."""

    def __init__(
        self, app: ASGIApp, limit: RateLimiter | None, registry: CollectorRegistry
    ) -> None:
        super().__init__(app)
        self._limit = limit
        self._refused = Counter(
            "privacy_http_limited_by_name",
            "Requests and lines of batches answered with 429 because their caller sent too many.",
            registry=registry,
        )

    async def refuse(self, scope: HTTPScope) -> Response[bytes] | None:
        principal = cast(Any, scope).get(PRINCIPAL)
        if isinstance(principal, Principal) and scope["path"] not in _PROBES:
            by_address = cast(Any, scope).pop(QUOTA, None)
            if by_address is not None:
                by_address.give_back()
            if self._limit is not None:
                quota = _Quota(self._limit, principal.name, principal.name, self._refused)
                cast(Any, scope)[QUOTA] = quota
                return quota.charge()
        return None


class _Limited(Guard):
    def __init__(
        self, app: ASGIApp, limit: RateLimiter, by: str | None, registry: CollectorRegistry
    ) -> None:
        super().__init__(app)
        self._limit = limit
        self._by = by
        self._refused = Counter(
            "privacy_http_limited_requests",
            "Requests answered with 429 because their address sent too many.",
            registry=registry,
        )

    async def refuse(self, scope: HTTPScope) -> Response[bytes] | None:
        if scope["path"] not in _PROBES:
            address = address_of(scope, self._by)
            if address is not None:
                quota = _Quota(self._limit, address, "your address", self._refused)
                cast(Any, scope)[QUOTA] = quota
                return quota.charge()
        return None


def _too_many(caller: str, wait: float) -> Response[bytes]:
    seconds = math.ceil(wait)
    what = f"too many requests from {caller}: send this one again after {seconds} s"
    return problem(429, "too_many_requests", what, headers={"Retry-After": str(seconds)})


def address_of(scope: HTTPScope, by: str | None) -> str | None:
    """Return the client's address, None for a request without a rate limit.

    This machine's own requests have none. Nor have requests through a proxy, if ACCOUNTANT_LIMIT_BY
    does not say how the proxy names its clients: all of them would share one limit.

    Args:
        by: `peer`, or the header in which a proxy names the client; None for neither.
    """
    client = scope["client"]
    peer = None if client is None else network_of(client[0])
    if by is None:
        is_forwarded = any(name in _OF_PROXIES for name, _ in scope["headers"])
        return None if is_forwarded else peer
    if by == _PEER:
        return peer
    wanted = by.lower().encode("ascii")
    values = [value for name, value in scope["headers"] if name == wanted]
    # Trust the last address alone: the proxy appends it, and the client may forge the others.
    named = values[-1].rpartition(b",")[2].decode("latin-1").strip() if values else ""
    return network_of(named) or peer


def network_of(text: str) -> str | None:
    """Return the address in a text, or an IPv6 address's /64; None for this machine or no address.

    One IPv6 client usually has a whole /64, so that its single addresses mean nothing.
    """
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
