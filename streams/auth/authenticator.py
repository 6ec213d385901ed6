"""Authenticates requests: finds the principal of a bearer token, or why there is none."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter

from streams.auth.metrics_token import MetricsToken
from streams.auth.oidc import Provider, TokenIdentity
from streams.auth.principal import SCRAPER, Principal, Scraper
from streams.auth.static_tokens import StaticTokens
from streams.auth.token_file import TOKEN_PREFIX
from streams.clock import steady
from streams.http.refusal import Refusal
from streams.settings.access import MOST_TOKEN
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_AUTHORIZATION: Final = b"authorization"
_BEARER: Final = re.compile(rb"bearer +([A-Za-z0-9._~+/-]+={0,4})", re.IGNORECASE)
_NONE: Final = Refusal(401, "none")
_MALFORMED: Final = Refusal(401, "malformed header")
_TOO_LONG: Final = Refusal(
    401,
    "token too long",
    f"the token is longer than {MOST_TOKEN} characters, the limit of this server. Have the "
    "provider leave claims out of it, such as groups",
    "token",
)
_NO_METRICS_TOKEN: Final = Refusal(503, "metrics token unreadable")
_OUTCOME: Final = {401: "unauthenticated", 503: "unavailable"}
_LOG_INTERVAL_S: Final = 10.0

Headers = Iterable[tuple[bytes, bytes]]


class Authenticator:
    """Authenticates callers by static tokens and by an OpenID provider's tokens.

    Args:
        tokens, provider: the enabled methods; at least one of them.
        metrics_readers: names that may read /metrics besides administrators; None lets everybody
            read it, even without a token.
        metrics_token: the token for /metrics alone, None without one.
        registry: counts authentications.
    """

    def __init__(
        self,
        tokens: StaticTokens | None,
        provider: Provider | None,
        *,
        metrics_readers: frozenset[str] | None,
        metrics_token: MetricsToken | None = None,
        registry: CollectorRegistry,
    ) -> None:
        assert tokens or provider
        self._tokens = tokens
        self._provider = provider
        self._metrics_readers = metrics_readers
        self._metrics_token = metrics_token
        counter = Counter(
            "privacy_http_authentications",
            "Requests by the outcome of their authentication.",
            ["outcome"],
            registry=registry,
        )
        self._accepted = counter.labels("accepted")
        self._refused = {status: counter.labels(outcome) for status, outcome in _OUTCOME.items()}
        self._refusal_log = _RefusalLog()

    async def authenticate(self, headers: Headers, *, peer: str) -> Principal | Refusal:
        """Return the caller's principal, by the headers of a request.

        Args:
            peer: the caller's network address, for the log.
        """
        token = _bearer_token(headers)
        found = token if isinstance(token, Refusal) else await self._find(token)
        self._count(found, peer)
        return found

    async def authenticate_scrape(
        self, headers: Headers, *, peer: str
    ) -> Principal | Scraper | Refusal:
        """Return the caller of `GET /metrics`, where the metrics token is valid too.

        Args:
            peer: as of `authenticate`.
        """
        token = _bearer_token(headers)
        found: Principal | Scraper | Refusal
        if isinstance(token, Refusal):
            found = token
        else:
            found = await self._find_scraper(token)
        self._count(found, peer)
        return found

    async def check_sign_in(
        self, access_token: str, id_token: str, *, client_id: str, nonce: str, peer: str
    ) -> TokenIdentity | Refusal:
        """Return the person who has signed in at the provider; see `Provider.check_sign_in`.

        Args:
            peer: as of `authenticate`.
        """
        assert self._provider is not None
        found = await self._provider.check_sign_in(
            access_token, id_token, client_id=client_id, nonce=nonce
        )
        self._count(found if isinstance(found, Refusal) else found.principal, peer)
        return found

    async def identify(self, access_token: str) -> TokenIdentity | Refusal:
        """Return the person of a refreshed access token of the provider."""
        assert self._provider is not None
        return await self._provider.identify(access_token)

    async def _find_scraper(self, token: str) -> Principal | Scraper | Refusal:
        matches = self._metrics_token is not None and await self._metrics_token.matches(token)
        if matches:
            return SCRAPER
        found = await self._find(token)
        # While the file cannot be read, no token is known to be wrong.
        is_unknown = matches is None and isinstance(found, Refusal)
        return _NO_METRICS_TOKEN if is_unknown else found

    def _count(self, found: Principal | Scraper | Refusal, peer: str) -> None:
        if isinstance(found, Refusal):
            self._refused[found.status].inc()
            self._refusal_log.add(found, peer)
        else:
            self._accepted.inc()

    async def _find(self, token: str) -> Principal | Refusal:
        if self._tokens is not None and (self._provider is None or token.startswith(TOKEN_PREFIX)):
            return await self._tokens.find(token)
        assert self._provider is not None
        return await self._provider.find(token)

    async def rejects_everybody(self) -> bool:
        """Tell whether no token can be accepted now, because the token file is unusable.

        Always false with a provider: its users still authenticate, and a load balancer that
        takes this server out of rotation would lock them out.
        """
        only_tokens = self._tokens if self._provider is None else None
        return only_tokens is not None and not await only_tokens.are_usable()

    async def unavailable_methods(self) -> dict[str, bool]:
        """Tell of each method of authentication whether its tokens cannot be checked now.

        Returns: by method: `tokens`, `provider`, and `metrics` for the metrics token.
        """
        found = await self.unavailable_callers()
        if self._metrics_token is not None:
            found["metrics"] = not await self._metrics_token.is_readable()
        return found

    async def unavailable_callers(self) -> dict[str, bool]:
        """Tell the same of `tokens` and `provider` alone; it reads no file that is unchanged."""
        found = {}
        if self._tokens is not None:
            found["tokens"] = not await self._tokens.are_usable()
        if self._provider is not None:
            found["provider"] = self._provider.is_away()
        return found

    @property
    def metrics_are_open(self) -> bool:
        """Whether unauthenticated callers may read /metrics."""
        return self._metrics_readers is None

    def may_read_metrics(self, caller: Principal | Scraper | None) -> bool:
        """Tell whether a caller may read /metrics; None is an unauthenticated one."""
        if self._metrics_readers is None or isinstance(caller, Scraper):
            return True
        return caller is not None and (caller.administrator or caller.name in self._metrics_readers)

    def may_read_reasons(self, caller: Principal | None) -> bool:
        """Tell whether a caller may read why the server is not ready; None is unauthenticated.

        Reasons may name datasets, files and brokers, as metrics do.
        """
        return caller is not None and self.may_read_metrics(caller)


def _bearer_token(headers: Headers) -> str | Refusal:
    found = [value for name, value in headers if name == _AUTHORIZATION]
    if not found:
        return _NONE
    # Two headers are ambiguous: a proxy may check the one and this server the other.
    match = _BEARER.fullmatch(found[0]) if len(found) == 1 else None
    if match is None:
        return _MALFORMED
    token = match[1].decode("ascii")
    return _TOO_LONG if len(token) > MOST_TOKEN else token


class _RefusalLog:
    """Logs refusals, one line a reason every ten seconds: a flood of requests fills no disk."""

    def __init__(self, now: Callable[[], float] = steady) -> None:
        self._now = now
        self._last: dict[str, float] = {}
        self._count: dict[str, int] = {}

    def add(self, refusal: Refusal, peer: str) -> None:
        why, now = refusal.why, self._now()
        self._count[why] = self._count.get(why, 0) + 1
        if now - self._last.get(why, float("-inf")) < _LOG_INTERVAL_S:
            return
        self._last[why] = now
        count = self._count.pop(why)
        more = {"what": refusal.what} if refusal.field else {}
        # A browser's first visit brings no token: nothing is wrong.
        log = _log.info if refusal == _NONE else _log.warning
        log(
            "authentication_refused",
            status=refusal.status,
            why=why,
            count=count,
            last_peer=peer,
            **more,
        )
