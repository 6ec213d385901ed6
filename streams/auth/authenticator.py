"""What a door asks of each request: whose is it?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter

from streams.auth.oidc import Provider
from streams.auth.principal import Principal
from streams.auth.static_tokens import StaticTokens
from streams.auth.token_file import TOKEN_PREFIX
from streams.clock import steady
from streams.http.refusal import Refusal
from streams.logs import get_logger
from streams.settings.access import MOST_TOKEN

_log = get_logger(__name__)
_AUTHORIZATION: Final = b"authorization"
_BEARER: Final = re.compile(rb"bearer +([A-Za-z0-9._~+/-]+={0,4})", re.IGNORECASE)
_NONE: Final = Refusal(401, "none")
_MALFORMED: Final = Refusal(401, "malformed header")
_TOO_LONG: Final = Refusal(
    401,
    "token too long",
    f"the token is longer than {MOST_TOKEN} characters, the most that is read: have the provider "
    "put less into it, such as no groups",
    "token",
)
_OUTCOME: Final = {401: "unauthenticated", 503: "unavailable"}
_A_LINE_EACH_S: Final = 10.0

Headers = Iterable[tuple[bytes, bytes]]


class Authenticator:
    """Finds out who asks, by either kind of token.

    Args:
        tokens, provider: what is on; one of them at least.
        metrics_readers: who may read /metrics besides administrators; None for everybody, also
            without a token.
        registry: where authentications are counted.
    """

    def __init__(
        self,
        tokens: StaticTokens | None,
        provider: Provider | None,
        *,
        metrics_readers: frozenset[str] | None,
        registry: CollectorRegistry,
    ) -> None:
        assert tokens or provider
        self._tokens = tokens
        self._provider = provider
        self._metrics_readers = metrics_readers
        self._counted = Counter(
            "privacy_http_authentications",
            "Requests by whether the door knew who asked.",
            ["outcome"],
            registry=registry,
        )
        self._accepted = self._counted.labels("accepted")
        self._refused = {
            status: self._counted.labels(outcome) for status, outcome in _OUTCOME.items()
        }
        self._lines = _Lines()

    async def authenticate(self, headers: Headers, *, peer: str) -> Principal | Refusal:
        """Return who asks, by the headers of a request.

        Args:
            peer: the address that asks, for the log.
        """
        found = await self._find([value for name, value in headers if name == _AUTHORIZATION])
        if isinstance(found, Principal):
            self._accepted.inc()
        else:
            self._refused[found.status].inc()
            self._lines.refused(found, peer)
        return found

    async def _find(self, given: list[bytes]) -> Principal | Refusal:
        if not given:
            return _NONE
        # Of two, a proxy and this door might each read another one.
        match = _BEARER.fullmatch(given[0]) if len(given) == 1 else None
        if match is None:
            return _MALFORMED
        token = match[1].decode("ascii")
        if len(token) > MOST_TOKEN:
            return _TOO_LONG
        if self._tokens is not None and (self._provider is None or token.startswith(TOKEN_PREFIX)):
            return await self._tokens.find(token)
        assert self._provider is not None
        return await self._provider.find(token)

    async def lets_nobody_in(self) -> bool:
        """Tell whether no token whatever can let anybody in now: the file cannot be used.

        Where there is a provider, its names are let in meanwhile, and a door to which nobody is
        led any more would keep them out.
        """
        only_tokens = self._tokens if self._provider is None else None
        return only_tokens is not None and not await only_tokens.are_known()

    @property
    def metrics_are_open(self) -> bool:
        """Whether strangers may read /metrics."""
        return self._metrics_readers is None

    def may_read_metrics(self, who: Principal | None) -> bool:
        """Tell whether somebody may read /metrics, None for a stranger."""
        if self._metrics_readers is None:
            return True
        return who is not None and (who.administrator or who.name in self._metrics_readers)


class _Lines:
    """Logs refusals, of each reason one line in ten seconds: nobody fills the disk by asking."""

    def __init__(self, now: Callable[[], float] = steady) -> None:
        self._now = now
        self._last: dict[str, float] = {}
        self._count: dict[str, int] = {}

    def refused(self, refusal: Refusal, peer: str) -> None:
        why, now = refusal.why, self._now()
        self._count[why] = self._count.get(why, 0) + 1
        if now - self._last.get(why, float("-inf")) < _A_LINE_EACH_S:
            return
        self._last[why] = now
        count = self._count.pop(why)
        more = {"what": refusal.what} if refusal.field else {}
        _log.warning(
            "authentication_refused",
            status=refusal.status,
            why=why,
            count=count,
            last_peer=peer,
            **more,
        )
