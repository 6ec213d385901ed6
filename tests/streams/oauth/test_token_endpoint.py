"""Tokens for codes and refresh tokens, from a provider with real HTTP."""

from __future__ import annotations

import json
from email.message import Message
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest

from streams.oauth.endpoints import ProviderEndpoints, read_endpoints
from streams.oauth.pkce import METHOD, challenge_of, new_verifier
from streams.oauth.provider_http import ProviderUnavailable, provider_http
from streams.oauth.token_endpoint import OAuthClient, OAuthRefusal, OAuthTokens, TokenEndpoint
from tests.streams.auth.provider import Answer
from tests.streams.oauth.sign_in_provider import CLIENT, SignInProvider

CALLBACK = "http://127.0.0.1:9/callback"


class RawProvider(SignInProvider):
    """A provider whose token endpoint answers with given bytes."""

    raw: Answer

    def answer_form(self, path: str, form: dict[str, str], headers: Message) -> Answer:
        return self.raw


async def endpoints_of(provider: SignInProvider) -> ProviderEndpoints:
    async with provider_http(provider.issuer, 5) as http:
        return await read_endpoints(http, provider.issuer)


async def token_endpoint(provider: SignInProvider, secret: str = "") -> TokenEndpoint:
    client = OAuthClient(client_id=CLIENT, secret=secret)
    return TokenEndpoint(await endpoints_of(provider), client)


def sign_in(provider: SignInProvider, verifier: str) -> str:
    """Return the code of a sign-in."""
    provider.callbacks = {CALLBACK}
    query = {
        "client_id": CLIENT,
        "redirect_uri": CALLBACK,
        "state": "s",
        "code_challenge": challenge_of(verifier),
        "code_challenge_method": METHOD,
    }
    answer = httpx.get(f"{provider.issuer}/authorize?{urlencode(query)}", trust_env=False)
    (code,) = parse_qs(urlsplit(answer.headers["location"]).query)["code"]
    return code


async def test_a_code_becomes_tokens_once_and_with_its_verifier_alone(
    sign_in_provider: SignInProvider,
) -> None:
    ours, verifier = await token_endpoint(sign_in_provider), new_verifier()
    for wrong in (new_verifier(), challenge_of(verifier)):
        code = sign_in(sign_in_provider, verifier)
        refused = await ours.exchange_code(code=code, redirect_url=CALLBACK, verifier=wrong)
        assert isinstance(refused, OAuthRefusal)
    code = sign_in(sign_in_provider, verifier)
    found = await ours.exchange_code(code=code, redirect_url=CALLBACK, verifier=verifier)
    assert isinstance(found, OAuthTokens)
    assert (found.access_token.count("."), found.expires_in) == (2, 600)
    assert found.access_token not in repr(found)
    assert found.refresh_token not in repr(found)
    again = await ours.exchange_code(code=code, redirect_url=CALLBACK, verifier=verifier)
    assert isinstance(again, OAuthRefusal)
    assert again.error == "invalid_grant"
    refreshed = await ours.refresh(found.refresh_token)
    assert isinstance(refreshed, OAuthTokens)
    assert refreshed.refresh_token != found.refresh_token
    assert isinstance(await ours.refresh(found.refresh_token), OAuthRefusal)


async def test_a_secret_is_sent_by_basic_authentication_and_in_no_form() -> None:
    with SignInProvider(secret="a:secret/ü") as provider:
        verifier = new_verifier()
        for secret, kind in (("a:secret/ü", OAuthTokens), ("other", OAuthRefusal)):
            ours = await token_endpoint(provider, secret)
            code = sign_in(provider, verifier)
            found = await ours.exchange_code(code=code, redirect_url=CALLBACK, verifier=verifier)
            assert isinstance(found, kind)
        assert all("secret" not in str(form) for form in provider.forms)


async def test_the_words_of_a_refusal_cannot_act_in_a_terminal(
    sign_in_provider: SignInProvider,
) -> None:
    sign_in_provider.refused = "access_denied"
    found = await (await token_endpoint(sign_in_provider)).poll_device("x")
    assert found == OAuthRefusal("access_denied", "<b>access_denied</b>\\u0007")


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b""),
        (429, b'{"error": "slow_down"}'),
        (302, b""),
        (200, b"<html>"),
        (200, b"[]"),
        (400, b"{}"),
        (400, b'{"error": "temporarily_unavailable"}'),
        (200, b'{"token_type": "bearer"}'),
        (200, b'{"access_token": "x"}'),
        (200, b'{"access_token": "x", "token_type": "mac"}'),
        (200, b'{"access_token": "a b", "token_type": "bearer"}'),
        (200, b'{"access_token": "x", "token_type": "bearer", "refresh_token": 7}'),
        (200, b'{"a":"' + b"x" * 600_000 + b'"}'),
    ],
    ids=str,
)
async def test_an_answer_that_is_neither_tokens_nor_a_refusal_is_an_outage(
    status: int, body: bytes
) -> None:
    with RawProvider() as provider:
        provider.raw = status, body, {"Location": "http://127.0.0.1:9/"} if status == 302 else {}
        with pytest.raises(ProviderUnavailable):
            await (await token_endpoint(provider)).refresh("a-secret")


async def test_a_refusal_is_found_whatever_its_status_and_its_code() -> None:
    with RawProvider() as provider:
        ours = await token_endpoint(provider)
        for status in (200, 400, 401, 403):
            provider.raw = status, b'{"error": "authorization_pending"}', {}
            assert await ours.poll_device("x") == OAuthRefusal("authorization_pending", "")
        for error in (7, "a\x1b", "", "x" * 101):
            provider.raw = 400, json.dumps({"error": error}).encode(), {}
            assert await ours.poll_device("x") == OAuthRefusal("unknown_error", "")


async def test_an_endpoint_that_others_can_read_along_is_not_used() -> None:
    class Unencrypted(SignInProvider):
        def discovery(self) -> dict[str, object]:
            return {**super().discovery(), "token_endpoint": "http://192.0.2.1/token"}

    with Unencrypted() as provider:
        ours = await token_endpoint(provider)
        with pytest.raises(ProviderUnavailable, match="its token_endpoint is not an https://"):
            await ours.refresh("x")


async def test_no_endpoint_of_another_issuer_is_used(sign_in_provider: SignInProvider) -> None:
    async with provider_http(sign_in_provider.issuer, 5) as http:
        with pytest.raises(ProviderUnavailable, match="its issuer is"):
            await read_endpoints(http, sign_in_provider.issuer + "/")
    sign_in_provider.broken = "another issuer"
    with pytest.raises(ProviderUnavailable, match="its issuer is"):
        await endpoints_of(sign_in_provider)


async def test_a_provider_that_is_down_is_an_outage_and_no_text_repeats_the_token() -> None:
    with SignInProvider() as provider:
        ours = await token_endpoint(provider)
    with pytest.raises(ProviderUnavailable) as raised:
        await ours.refresh("a-secret")
    assert "a-secret" not in str(raised.value)
