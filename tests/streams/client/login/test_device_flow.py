"""A device's sign-in names an answer that cannot be used, and polls no faster than it may."""

from __future__ import annotations

import asyncio
import json
from email.message import Message
from typing import Final

import pytest

from streams.client.login.browser_flow import sign_in_by_browser
from streams.client.login.device_flow import sign_in_by_device
from streams.client.login.request import LoginRequest
from streams.client.login.sign_in import find_endpoints
from streams.errors import Refused
from streams.oauth.provider_http import ProviderFault, ProviderUnavailable
from streams.oauth.token_endpoint import OAuthClient
from tests.streams.auth.provider import Answer
from tests.streams.client.login.login_provider import LoginProvider
from tests.streams.oauth.sign_in_provider import CLIENT

STARTS = ()

Case = tuple[int, bytes, str]
UNUSABLE: Final[dict[str, Case]] = {
    # case: status, body, the words of the fault
    "dpop": (200, b'{"access_token":"x","token_type":"DPoP"}', "without a bearer token"),
    "no-type": (200, b'{"access_token":"x"}', "without a bearer token"),
    "no-token": (200, b'{"token_type":"Bearer"}', "without an access_token"),
    "list-token": (200, b'{"access_token":["x"],"token_type":"Bearer"}', "unusable access_token"),
    "twice": (200, b'{"token_type":"Bearer","access_token":"x","access_token":"y"}', "twice"),
    "page": (200, b"<html>signed in</html>", "does not answer with JSON"),
    "list": (200, b"[]", "does not answer with a JSON object"),
    "empty": (200, b"", "does not answer with JSON"),
}
"""Of such an answer a later poll would say that the code is used up, or has expired."""
AWAY: Final[dict[str, Case]] = {
    "away": (503, b"", "answers with status 503"),
    "proxy": (403, b"<html>no</html>", "does not answer with JSON"),
    "no-error": (400, b'{"token_type":"Bearer","access_token":"x"}', "status 400 and no error"),
}
PENDING: Final[dict[str, Case]] = {"pending": (400, b'{"error":"authorization_pending"}', "")}
CASES: Final = UNUSABLE | AWAY | PENDING


class CasesProvider(LoginProvider):
    """A provider whose tokens are those of the case that a sign-in's scope names."""

    def answer_form(self, path: str, form: dict[str, str], headers: Message) -> Answer:
        if path == "/device":
            status, body, more = super().answer_form(path, form, headers)
            found = {**json.loads(body), "device_code": form["scope"], "expires_in": 3}
            return status, json.dumps(found).encode(), more
        self.forms.append(form)
        status, body, _ = CASES[form["device_code"]]
        return status, body, {}


async def test_what_ends_a_sign_in_by_device_is_named() -> None:
    with CasesProvider() as provider:
        endpoints, client = await find_endpoints(provider.issuer), OAuthClient(client_id=CLIENT)

        async def outcome(case: str) -> BaseException:
            request = LoginRequest(endpoints=endpoints, client=client, scope=case)
            with pytest.raises((Refused, ProviderUnavailable)) as found:
                await sign_in_by_device(request, lambda _: None)
            return found.value

        found = dict(zip(CASES, await asyncio.gather(*map(outcome, CASES)), strict=True))
    wrong = {
        case: error
        for case, error in found.items()
        if (type(error) is not (ProviderFault if case in UNUSABLE else ProviderUnavailable))
        or CASES[case][2] not in str(error)
    }
    assert wrong.keys() == {"pending"}, wrong
    assert isinstance(wrong["pending"], Refused)
    assert "nobody signed in before the code expired" in str(wrong["pending"])
    polls = [form["device_code"] for form in provider.forms]
    assert all(polls.count(case) == 1 for case in UNUSABLE), "a fault is not asked for again"
    assert all(polls.count(case) <= 3 for case in AWAY | PENDING)


async def test_an_answer_to_the_browser_without_a_code_is_a_fault(provider: LoginProvider) -> None:
    import httpx

    client = OAuthClient(client_id=CLIENT)
    request = LoginRequest(
        endpoints=await find_endpoints(provider.issuer), client=client, scope="openid"
    )
    sent = list[asyncio.Task[None]]()

    async def answer(url: str) -> None:
        query = httpx.URL(url).params
        back = {"state": query["state"], "iss": provider.issuer}
        async with httpx.AsyncClient(trust_env=False) as http:
            await http.get(query["redirect_uri"], params=back)

    def show(url: str) -> None:
        sent.append(asyncio.get_running_loop().create_task(answer(url)))

    with pytest.raises((ProviderUnavailable, Refused)) as found:
        await sign_in_by_browser(request, show)
    await asyncio.gather(*sent)
    assert type(found.value) is ProviderFault
    assert "neither a code nor an error" in str(found.value)
    assert provider.forms == [], "nothing was asked for"
