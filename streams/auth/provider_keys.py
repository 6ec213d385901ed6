"""The signing keys of an OpenID provider: fetched, cached, and refreshed when they may change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from streams.clock import steady
from streams.error_words import words_of
from streams.oauth.endpoints import read_endpoints
from streams.oauth.provider_http import (
    ProviderFault,
    ProviderUnavailable,
    provider_http,
    read_object,
)
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)

REFRESH_S: Final = 300.0
"""Keys are refreshed after this time, in the background: a withdrawn key is rejected by then."""
BETWEEN_S: Final = 2.0
"""Minimum time between two fetches, however many tokens with unknown keys arrive."""
MOST_WAITING: Final = 100
"""Requests that may wait for a fetch; any more get 503 at once."""

_TIMEOUT_S: Final = 5.0
_MOST_KEYS: Final = 100
_LEAST_RSA_BITS: Final = 2_048
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}


class ProviderKeys:
    """A cache of the provider's keys by id and algorithm.

    A key verifies only the algorithms of its own type, whatever the header of a token claims.

    Args:
        algorithms: the accepted signature algorithms.
        outage: seconds after the last fetch during which cached keys stay trusted.
        now: monotonic seconds.
    """

    def __init__(
        self,
        issuer: str,
        algorithms: tuple[str, ...],
        outage: float,
        *,
        now: Callable[[], float] = steady,
    ) -> None:
        self._issuer = issuer
        self._algorithms = algorithms
        self._now = now
        self._refresh = min(REFRESH_S, max(1.0, outage / 2))
        self._max_age = max(outage, self._refresh)
        self._keys: dict[str, list[tuple[str, jwt.PyJWK]]] = {}
        self._published: object = None
        self._read_at: float | None = None  # start of the last successful fetch
        self._began = float("-inf")
        self._away = ""
        self._reading: asyncio.Task[None] | None = None
        self._waiting = 0
        self.generation = 0  # increases whenever the published keys change

    def are_trusted(self) -> bool:
        """Tell whether the keys may be trusted; starts a background refresh of old ones."""
        if self._read_at is None:
            return False
        age = self._now() - self._read_at
        if age > self._max_age:
            return False
        if age > self._refresh and self._now() - self._began > BETWEEN_S:
            self._start()
        return True

    def are_away(self) -> bool:
        """Tell whether no key is trusted, because the last fetch failed; starts the next one."""
        if self.are_trusted():
            return False
        if self._now() - self._began > BETWEEN_S:
            self._start()
        return bool(self._away)

    async def find(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        """Return the key with an id, or the only key where the token names no id; None if none.

        Raises: ProviderUnavailable: the keys cannot be fetched now.
        """
        if self.are_trusted():
            key = self._key(kid, algorithm)
            if key is not None or kid is None:
                return key
        if self._away and self._now() - self._began < BETWEEN_S:
            raise ProviderUnavailable(self._away)  # the last attempt was a moment ago
        if self._waiting >= MOST_WAITING:
            raise ProviderUnavailable(f"{MOST_WAITING} requests wait for the provider already")
        self._waiting += 1
        try:
            return await self._find_refreshed(kid, algorithm)
        finally:
            self._waiting -= 1

    async def _find_refreshed(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        came, key = self._now(), None
        # Two rounds: a fetch already under way may have started before the key was published.
        for _ in range(2):
            # Shielded: other requests wait for the same fetch if this client disconnects.
            await asyncio.shield(self._start())
            key = self._key(kid, algorithm) if self.are_trusted() else None
            if key is not None or self._began >= came:
                break
        if key is None and self._away:
            raise ProviderUnavailable(self._away)
        return key

    def _key(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        fitting = [
            (name, key) for name, key in self._keys.get(algorithm, []) if kid is None or name == kid
        ]
        # Two keys with one id, or two without ids, are ambiguous: trust neither.
        return fitting[0][1] if len(fitting) == 1 else None

    def _start(self) -> asyncio.Task[None]:
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read(), name="provider-keys")
        return self._reading

    async def _read(self) -> None:
        await asyncio.sleep(max(0.0, self._began + BETWEEN_S - self._now()))
        self._began = began = self._now()
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                published = await self._fetch()
        except Exception as error:  # whatever the provider answers, this server keeps running
            what = words_of(error)
            if not self._away:
                _log.warning("provider_unavailable", issuer=self._issuer, why=what)
            self._away = what
            return
        if self._away:
            _log.info("provider_back", issuer=self._issuer)
        self._away, self._read_at = "", began
        if published != self._published:
            self._published = published
            self._keys = _usable(published, self._algorithms)
            self.generation += 1
            names = sorted({name for keys in self._keys.values() for name, _ in keys})
            _log.info("provider_keys", issuer=self._issuer, keys=names)

    async def _fetch(self) -> list[Any]:
        async with provider_http(self._issuer, _TIMEOUT_S) as http:
            where = (await read_endpoints(http, self._issuer)).require("jwks_uri")
            keys = (await read_object(http, "GET", where)).get("keys")
        if not isinstance(keys, list) or len(keys) > _MOST_KEYS:
            raise ProviderFault(f"it publishes no keys, or more than {_MOST_KEYS}")
        return keys


def _usable(
    published: list[Any], algorithms: tuple[str, ...]
) -> dict[str, list[tuple[str, jwt.PyJWK]]]:
    """Return the public signature keys by algorithm; others, such as symmetric ones, are ignored.

    A symmetric key must never verify: whoever knows the public keys could sign with one as its
    secret.
    """
    found: dict[str, list[tuple[str, jwt.PyJWK]]] = {}
    for each in published:
        for algorithm, key in _of_one(each):
            if algorithm in algorithms:
                found.setdefault(algorithm, []).append((str(each.get("kid", "")), key))
    return found


def _of_one(published: Any) -> Iterator[tuple[str, jwt.PyJWK]]:
    if not isinstance(published, dict) or "d" in published:
        return
    try:
        if published.get("kty") not in {"RSA", "EC", "OKP"}:
            return
        operations = published.get("key_ops", ["verify"])
        if published.get("use", "sig") != "sig" or "verify" not in operations:
            return
        fits = _fitting(jwt.PyJWK(published | {"alg": None}).key)
        # A key that names its algorithm verifies no other one.
        for algorithm in fits:
            if published.get("alg", algorithm) == algorithm:
                yield algorithm, jwt.PyJWK(published, algorithm)
    except (jwt.PyJWTError, ValueError, TypeError):
        return


def _fitting(key: object) -> tuple[str, ...]:
    """Return the algorithms that fit the type and size of a public key."""
    if isinstance(key, RSAPublicKey):
        return _RSA if key.key_size >= _LEAST_RSA_BITS else ()
    if isinstance(key, EllipticCurvePublicKey):
        curve = _CURVES.get(key.curve.name)
        return () if curve is None else (curve,)
    return ("EdDSA",) if isinstance(key, Ed25519PublicKey) else ()
