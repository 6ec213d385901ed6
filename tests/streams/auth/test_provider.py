"""A server and its OpenID provider: keys that rotate while requests run, and one that is away."""

from __future__ import annotations

import asyncio
import threading
import time
import tracemalloc
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from streams.auth import oidc
from streams.auth.oidc import Provider, TokenRequirements
from streams.auth.principal import Principal
from streams.auth.provider_keys import BETWEEN_S, REFRESH_S, ProviderKeys
from streams.http.refusal import Refusal
from streams.oauth.provider_http import ProviderUnavailable
from tests.patience import PATIENCE_S
from tests.streams.auth.provider import AUDIENCE, RSA_KEY, LocalProvider, bomb, jwk_of
from tests.streams.auth.token_server import TokenServer
from tests.streams.clock import TestClock
from tests.streams.gateway.records import request
from tests.streams.waiting import eventually

BOTH = ("RS256", "ES256")


class Keys(ProviderKeys):
    """Keys of a provider by a clock that a test moves."""

    def __init__(self, provider: LocalProvider, outage: float = 3_600.0, *more: str) -> None:
        self.clock = TestClock()
        super().__init__(provider.issuer, (*BOTH, *more), outage, now=self.clock.monotonic)

    async def knows(self, kid: str | None, algorithm: str) -> bool:
        """Tell whether there is a key, some while after it was last looked for."""
        self.clock.pass_(seconds=BETWEEN_S)
        return await self.find(kid, algorithm) is not None


async def refresh_finished(keys: ProviderKeys) -> None:
    """Return once what is being read beside the requests was read."""
    reading = keys._reading
    if reading is not None:
        await reading


async def test_a_provider_key_is_used_only_for_algorithms_of_its_type(
    provider: LocalProvider,
) -> None:
    small = rsa.generate_private_key(public_exponent=65_537, key_size=1_024)
    provider.jwks = [
        jwk_of(RSA_KEY, "any"),
        jwk_of(RSA_KEY, "ps", alg="PS256"),
        jwk_of(RSA_KEY, "encrypts", use="enc"),
        jwk_of(RSA_KEY, "signs", key_ops=["sign"]),
        jwk_of(small, "small"),
        jwk_of(ec.generate_private_key(ec.SECP256R1()), "p256"),
        jwk_of(ec.generate_private_key(ec.SECP384R1()), "p384"),
        jwk_of(ed25519.Ed25519PrivateKey.generate(), "ed"),
        {"kty": "oct", "kid": "secret", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"},
        {"kty": "RSA", "kid": "broken", "n": "!", "e": "AQAB"},
        {"kty": "EC", "kid": "nowhere", "crv": "P-256", "x": "AAAA", "y": "AAAA"},
        {"kid": "nothing"},
        {"kty": ["RSA"], "kid": "listed"},
        {**jwk_of(RSA_KEY, "operated"), "key_ops": 5},
        "no key",  # type: ignore[list-item]
    ]
    keys = Keys(provider, 3_600, "PS256", "ES384", "EdDSA")
    fits = {
        "any": {"RS256", "PS256"},
        "ps": {"PS256"},
        "p256": {"ES256"},
        "p384": {"ES384"},
        "ed": {"EdDSA"},
    }
    assert await keys.knows("any", "RS256")
    for kid in ("any", "ps", "p256", "p384", "ed", "encrypts", "signs", "small", "secret"):
        found = {
            name
            for name in (*BOTH, "PS256", "ES384", "EdDSA", "HS256", "none")
            if keys._key(kid, name) is not None
        }
        assert found == fits.get(kid, set()), kid
    assert {name for result in keys._keys.values() for name, _ in result} == set(fits)


async def test_a_token_without_a_key_id_needs_exactly_one_matching_key(
    provider: LocalProvider,
) -> None:
    keys = Keys(provider)
    assert await keys.knows(None, "RS256")
    provider.jwks = [jwk_of(RSA_KEY, "one"), jwk_of(RSA_KEY, "other")]
    assert not await Keys(provider).knows(None, "RS256")
    provider.jwks = [jwk_of(RSA_KEY, "same"), jwk_of(RSA_KEY, "same")]
    assert not await Keys(provider).knows("same", "RS256")


async def test_a_compressed_provider_response_is_rejected_without_expansion(
    provider: LocalProvider,
) -> None:
    provider.broken = "compressed"
    bomb()  # is made once: the provider would take long over it while memory is traced
    tracemalloc.start()
    try:
        with pytest.raises(ProviderUnavailable, match=r"compressed \(gzip\)"):
            await Keys(provider).find("r1", "RS256")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert provider.encodings == ["identity"]
    assert peak < 20_000_000


async def test_each_unknown_key_id_fetches_provider_keys_once(provider: LocalProvider) -> None:
    keys = Keys(provider)
    assert await keys.knows("r1", "RS256")
    before = len(provider.asked)
    for number in range(5):
        assert not await keys.knows(f"unknown{number}", "RS256")
    assert len(provider.asked) == before + 10  # discovery and keys
    assert await keys.knows("r1", "RS256")
    assert len(provider.asked) == before + 10


async def test_a_withdrawn_key_is_refused_after_the_next_refresh(
    provider: LocalProvider,
) -> None:
    keys = Keys(provider)
    assert await keys.knows("r1", "RS256")
    provider.rotate("e2")
    generation = keys.generation
    keys.clock.pass_(seconds=REFRESH_S + 1)
    assert keys.are_trusted()
    await refresh_finished(keys)
    assert keys.generation == generation + 1
    assert not await keys.knows("r1", "RS256")
    assert await keys.knows("e2", "ES256")


@pytest.mark.parametrize(
    "broken", ["error", "garbage", "elsewhere", "huge", "another issuer", "open keys", "compressed"]
)
async def test_cached_keys_work_during_a_provider_outage_until_the_outage_limit(
    provider: LocalProvider, broken: str
) -> None:
    keys = Keys(provider, 1_000)
    assert await keys.knows("r1", "RS256")
    provider.broken = broken
    for _ in range(3):
        keys.clock.pass_(seconds=320)
        assert await keys.knows("r1", "RS256")
        await refresh_finished(keys)
    with pytest.raises(ProviderUnavailable):
        await keys.knows("e2", "ES256")
    keys.clock.pass_(seconds=60)
    assert not keys.are_trusted()
    with pytest.raises(ProviderUnavailable):
        await keys.knows("r1", "RS256")
    provider.broken = None
    assert await keys.knows("r1", "RS256")
    assert keys.are_trusted()


async def test_a_new_server_accepts_no_token_while_its_provider_is_unreachable(
    provider: LocalProvider,
) -> None:
    provider.broken = "error"
    keys = Keys(provider)
    with pytest.raises(ProviderUnavailable):
        await keys.knows("r1", "RS256")
    asked = len(provider.asked)
    with pytest.raises(ProviderUnavailable):
        await keys.find("r1", "RS256")  # at once: it has just been asked
    assert len(provider.asked) == asked


def test_key_rotation_fails_no_concurrent_request(tmp_path: Path, provider: LocalProvider) -> None:
    with TokenServer(tmp_path, provider=provider) as server:
        stop, statuses = threading.Event(), list[int]()

        def ask() -> None:
            while not stop.is_set():
                statuses.append(server.status(provider.token("ana")))

        asking = [threading.Thread(target=ask) for _ in range(2)]
        for thread in asking:
            thread.start()
        try:
            for number in range(3):
                current_key, kid = provider.published[-1], f"e{number}"
                provider.rotate(kid, keep=(current_key,))
                since = len(statuses)
                eventually(lambda since=since: len(statuses) > since + 4)
        finally:
            stop.set()
            for thread in asking:
                thread.join()
        assert set(statuses) == {200}


def test_a_long_provider_outage_rejects_only_tokens_of_that_provider(
    tmp_path: Path, provider: LocalProvider
) -> None:
    with TokenServer(tmp_path, provider=provider, oidc_outage_seconds=6) as server:
        ana = provider.token("ana")
        assert server.status(ana) == 200
        provider.broken = "error"
        unknown = provider.token("ana", header={"kid": "other"})
        assert server.status(ana) == 200
        assert server.status(unknown) == 503  # nobody can tell now
        eventually(lambda: server.status(ana) == 503)
        before = server.last_sequence()
        answer = server.post("/requests", request(server.clock), authorization=f"Bearer {ana}")
        assert (answer.status_code, answer.json()["error"]) == (503, "authentication_unavailable")
        assert provider.issuer not in answer.text
        assert server.last_sequence() == before
        assert server.status(server.administrator) == 200
        assert server.status(None) == 401
        provider.broken = None
        eventually(lambda: server.status(ana) == 200)


def found_by(provider: LocalProvider, keys: ProviderKeys) -> Provider:
    accepts = TokenRequirements(provider.issuer, AUDIENCE, BOTH, "sub", 60.0, "local:")
    return Provider(accepts, keys, lambda name: Principal(name, "oidc", False))


async def test_a_cached_token_is_refused_after_it_expires(provider: LocalProvider) -> None:
    known = found_by(provider, Keys(provider))
    token = provider.token(exp=int(time.time()) - 58)  # of 60 s that clocks may differ
    assert isinstance(await known.find(token), Principal)
    until = time.monotonic() + PATIENCE_S
    while isinstance(await known.find(token), Principal):
        assert time.monotonic() < until
        await asyncio.sleep(0.1)
    assert await known.find(token) == Refusal(401, "expired token")


async def test_a_cached_token_is_refused_after_its_key_is_withdrawn(
    provider: LocalProvider,
) -> None:
    keys = Keys(provider)
    known = found_by(provider, keys)
    token = provider.token()
    for _ in range(2):
        assert await known.find(token) == Principal("ana", "oidc", False)
    provider.rotate("e2")
    keys.clock.pass_(seconds=REFRESH_S + 1)
    await known.find(token)
    await refresh_finished(keys)
    keys.clock.pass_(seconds=BETWEEN_S)
    assert await known.find(token) == Refusal(401, "unknown key")
    assert await known.find(provider.token()) == Principal("ana", "oidc", False)


async def test_the_token_cache_is_bounded(
    provider: LocalProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc, "MAX_REMEMBERED", 3)
    known = found_by(provider, Keys(provider))
    for number in range(10):
        assert isinstance(await known.find(provider.token(jti=str(number))), Principal)
    assert len(known._cache) == 3


@pytest.mark.parametrize("field", ["preferred_username", "https://claims.example.org/name"])
async def test_a_setting_selects_the_claim_that_names_the_caller(
    provider: LocalProvider, field: str
) -> None:
    accepts = TokenRequirements(provider.issuer, AUDIENCE, BOTH, field, 60.0, "")
    known = Provider(accepts, Keys(provider), lambda name: Principal(name, "oidc", False))
    assert await known.find(provider.token("1", **{field: "ana"})) == Principal(
        "ana", "oidc", False
    )
    for wrong in (None, 7, ["ana"], ""):
        found = await known.find(provider.token("ana", **{field: wrong}))
        assert found == Refusal(401, "subject is no name")
