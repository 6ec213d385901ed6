"""The keys of an OpenID provider: read from it, kept, and read anew where they may be others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from streams.clock import steady
from streams.logs import get_logger

_log = get_logger(__name__)

REFRESH_S: Final = 300.0
"""Keys are read again after so long, beside the requests: a key taken back is refused by then."""
BETWEEN_S: Final = 2.0
"""Between two readings, however many tokens of unknown keys come."""
MOST_WAITING: Final = 100
"""Requests that wait for a reading; more are told to come again."""

_TIMEOUT_S: Final = 5.0
_MOST_BYTES: Final = 512 * 1024
_MOST_KEYS: Final = 100
_LEAST_RSA_BITS: Final = 2_048
_ASKED: Final = {"Accept": "application/json", "Accept-Encoding": "identity"}
_WELL_KNOWN: Final = "/.well-known/openid-configuration"
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}


class Away(Exception):
    """The provider does not answer, or not with its keys; the message says how."""


class ProviderKeys:
    """Keys by id and algorithm: a key verifies what fits its type, whatever a token says.

    Args:
        algorithms: those that may have signed.
        outage: how many seconds after they were last read known keys are still believed.
        now: seconds of a clock that only rises.
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
        self._most_age = max(outage, self._refresh)
        self._keys: dict[str, list[tuple[str, jwt.PyJWK]]] = {}
        self._as_told: object = None
        self._read_at: float | None = None  # when the last reading that succeeded began
        self._began = float("-inf")
        self._away = ""
        self._reading: asyncio.Task[None] | None = None
        self._waiting = 0
        self.generation = 0  # rises where the keys are others than before

    def are_known(self) -> bool:
        """Tell whether the keys may be believed, and have them read again where they are old."""
        if self._read_at is None:
            return False
        age = self._now() - self._read_at
        if age > self._most_age:
            return False
        if age > self._refresh and self._now() - self._began > BETWEEN_S:
            self._start()
        return True

    async def find(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        """Return the key of an id, None if the provider has none; the only one where it has no id.

        Raises: Away: that cannot be told now.
        """
        if self.are_known():
            key = self._key(kid, algorithm)
            if key is not None or kid is None:
                return key
        if self._away and self._now() - self._began < BETWEEN_S:
            raise Away(self._away)  # it has just been asked
        if self._waiting >= MOST_WAITING:
            raise Away(f"{MOST_WAITING} requests wait for the provider already")
        self._waiting += 1
        try:
            return await self._found_anew(kid, algorithm)
        finally:
            self._waiting -= 1

    async def _found_anew(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        came, key = self._now(), None
        # What is being read as the request comes may be from before its key was there.
        for _ in range(2):
            # Shielded: others wait for the same reading when this client has left.
            await asyncio.shield(self._start())
            key = self._key(kid, algorithm) if self.are_known() else None
            if key is not None or self._began >= came:
                break
        if key is None and self._away:
            raise Away(self._away)
        return key

    def _key(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        fitting = [
            (name, key) for name, key in self._keys.get(algorithm, []) if kid is None or name == kid
        ]
        # Of two keys with one id, or two without any, nothing says which one it is.
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
                told = await self._told()
        except Exception as error:  # whatever it answers, the door goes on without it
            what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            if not self._away:
                _log.warning("provider_away", issuer=self._issuer, why=what)
            self._away = what
            return
        if self._away:
            _log.info("provider_back", issuer=self._issuer)
        self._away, self._read_at = "", began
        if told != self._as_told:
            self._as_told = told
            self._keys = _usable(told, self._algorithms)
            self.generation += 1
            names = sorted({name for keys in self._keys.values() for name, _ in keys})
            _log.info("provider_keys", issuer=self._issuer, keys=names)

    async def _told(self) -> list[Any]:
        # A provider on this machine is never asked through a proxy.
        proxies = urlsplit(self._issuer).hostname not in _LOOPBACK
        async with httpx.AsyncClient(
            timeout=_TIMEOUT_S, trust_env=proxies, follow_redirects=False
        ) as client:
            known = await _json(client, self._issuer.rstrip("/") + _WELL_KNOWN)
            if known.get("issuer") != self._issuer:
                raise Away(f"it calls itself {str(known.get('issuer'))[:200]!r}")
            where = known.get("jwks_uri")
            if not isinstance(where, str) or not _is_private(where):
                raise Away("its jwks_uri is no https:// address")
            keys = (await _json(client, where)).get("keys")
        if not isinstance(keys, list) or len(keys) > _MOST_KEYS:
            raise Away(f"it tells no keys, or more than {_MOST_KEYS}")
        return keys


def _is_private(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)


async def _json(client: httpx.AsyncClient, url: str) -> dict[str, Any]:
    """Return the JSON object at an address, of a bounded length.

    Raises: Away: there is none.
    """
    content = bytearray()
    async with client.stream("GET", url, headers=_ASKED) as response:
        if response.status_code != 200:
            raise Away(f"{url} is answered with {response.status_code}")
        # A few compressed bytes may be a gigabyte, and would be expanded before they are counted.
        coding = response.headers.get("content-encoding", "").strip().lower()
        if coding not in {"", "identity"}:
            raise Away(f"{url} is answered compressed ({coding[:50]}), which was not asked for")
        async for piece in response.aiter_raw(65_536):
            content += piece
            if len(content) > _MOST_BYTES:
                raise Away(f"{url} has more than {_MOST_BYTES:,} bytes")
    try:
        found = msgspec.json.decode(bytes(content))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Away(f"{url} is no JSON") from error
    if not isinstance(found, dict):
        raise Away(f"{url} is no object")
    return found


def _usable(told: list[Any], algorithms: tuple[str, ...]) -> dict[str, list[tuple[str, jwt.PyJWK]]]:
    """Return the keys that verify, by algorithm; others, such as symmetric ones, are left out."""
    found: dict[str, list[tuple[str, jwt.PyJWK]]] = {}
    for each in told:
        for algorithm, key in _of_one(each):
            if algorithm in algorithms:
                found.setdefault(algorithm, []).append((str(each.get("kid", "")), key))
    return found


def _of_one(told: Any) -> Iterator[tuple[str, jwt.PyJWK]]:
    if not isinstance(told, dict) or told.get("kty") not in {"RSA", "EC", "OKP"} or "d" in told:
        return
    operations = told.get("key_ops", ["verify"])
    if told.get("use", "sig") != "sig" or "verify" not in operations:
        return
    try:
        fits = _fitting(jwt.PyJWK(told | {"alg": None}).key)
        # A key that names its algorithm verifies no other.
        for algorithm in fits:
            if told.get("alg", algorithm) == algorithm:
                yield algorithm, jwt.PyJWK(told, algorithm)
    except (jwt.PyJWTError, ValueError, TypeError):
        return


def _fitting(key: object) -> tuple[str, ...]:
    """Return the algorithms for which a public key is made."""
    if isinstance(key, RSAPublicKey):
        return _RSA if key.key_size >= _LEAST_RSA_BITS else ()
    if isinstance(key, EllipticCurvePublicKey):
        curve = _CURVES.get(key.curve.name)
        return () if curve is None else (curve,)
    return ("EdDSA",) if isinstance(key, Ed25519PublicKey) else ()
