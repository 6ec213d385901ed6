"""A provider's token endpoint: tokens for a code, a refresh token, or a device code."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from accountant.foreign_text import escape_text
from streams.oauth.endpoints import ProviderEndpoints
from streams.oauth.provider_http import (
    ProviderFault,
    ProviderUnavailable,
    provider_http,
    read_object,
)

TIMEOUT_S: Final = 10.0
"""The longest wait for an answer of the token endpoint."""
_DEVICE: Final = "urn:ietf:params:oauth:grant-type:device_code"
# RFC 6749, appendix A.7; and what a page or a terminal can show.
_CODE: Final = re.compile(r"[\x20-\x21\x23-\x5b\x5d-\x7e]{1,100}")
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,24576}")
_SECONDS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_MOST_WORDS: Final = 300
_TEMPORARY: Final = frozenset({"server_error", "temporarily_unavailable"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthClient:
    """This program, as the provider knows it.

    Attributes:
        secret: empty for a public client.
    """

    client_id: str
    secret: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthTokens:
    """The tokens of one person. Nothing in them is verified yet.

    Attributes:
        id_token, refresh_token: empty if the provider sent none.
        expires_in: seconds from the answer on, None if the provider does not say.
    """

    access_token: str = field(repr=False)
    id_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    expires_in: float | None


@dataclass(frozen=True, slots=True)
class OAuthRefusal:
    """The provider's refusal. Its texts are bounded and have no control characters.

    Attributes:
        error: the code, such as `invalid_grant` or `authorization_pending`.
        description: the provider's words, perhaps empty.
    """

    error: str
    description: str


def refusal_of(fields: Mapping[str, Any]) -> OAuthRefusal | None:
    """Return the refusal in an answer of the provider, None if it contains no error.

    Args:
        fields: of a JSON object, or of the address to which a browser was sent.
    """
    error = fields.get("error")
    if error is None:
        return None
    words = fields.get("error_description")
    is_code = isinstance(error, str) and _CODE.fullmatch(error) is not None
    said = escape_text(words[:_MOST_WORDS]) if isinstance(words, str) else ""
    return OAuthRefusal(str(error) if is_code else "unknown_error", said)


class TokenEndpoint:
    """Sends requests to a provider's token endpoint.

    Each method returns tokens or the provider's refusal.

    Raises:
        ProviderUnavailable: the provider did not answer in `TIMEOUT_S`.
        ProviderFault: it answered with neither.
    """

    def __init__(self, endpoints: ProviderEndpoints, client: OAuthClient) -> None:
        self._endpoints = endpoints
        self._client = client

    async def exchange_code(
        self,
        *,
        code: str,
        redirect_url: str,
        verifier: str,
        more: Mapping[str, str] | None = None,
    ) -> OAuthTokens | OAuthRefusal:
        """Exchange the code of a browser's sign-in.

        Args:
            redirect_url: exactly as in the authorization request.
            verifier: see `pkce.new_verifier`.
            more: further fields, such as `resource`.
        """
        fields = {"code": code, "redirect_uri": redirect_url, "code_verifier": verifier}
        return await self._request("authorization_code", {**(more or {}), **fields})

    async def refresh(
        self, refresh_token: str, *, more: Mapping[str, str] | None = None
    ) -> OAuthTokens | OAuthRefusal:
        """Exchange a refresh token. The answer has a new one if the provider rotates them."""
        fields = {**(more or {}), "refresh_token": refresh_token}
        return await self._request("refresh_token", fields)

    async def poll_device(
        self, device_code: str, *, more: Mapping[str, str] | None = None
    ) -> OAuthTokens | OAuthRefusal:
        """Ask once for the tokens of a device (RFC 8628)."""
        return await self._request(_DEVICE, {**(more or {}), "device_code": device_code})

    async def _request(self, grant: str, fields: dict[str, str]) -> OAuthTokens | OAuthRefusal:
        url = self._endpoints.require("token_endpoint")
        form = {**fields, "grant_type": grant}
        answer = await send_form(self._endpoints, self._client, url, form)
        return answer if isinstance(answer, OAuthRefusal) else _tokens(url, answer)


async def send_form(
    endpoints: ProviderEndpoints, client: OAuthClient, url: str, fields: Mapping[str, str]
) -> dict[str, Any] | OAuthRefusal:
    """Send a form to an endpoint as a client, and return the answer or the provider's refusal.

    Raises: ProviderUnavailable: the provider did not answer in `TIMEOUT_S`, or not with either.
    """
    form, auth = dict(fields), None
    if client.secret and endpoints.takes_basic:
        # RFC 6749, 2.3.1: both are encoded as in a form first.
        auth = (quote(client.client_id, safe=""), quote(client.secret, safe=""))
    else:
        form["client_id"] = client.client_id
        if client.secret:
            form["client_secret"] = client.secret
    try:
        async with asyncio.timeout(TIMEOUT_S):
            async with provider_http(endpoints.issuer, TIMEOUT_S) as http:
                answer = await read_object(
                    http, "POST", url, form=form, auth=auth, allow_error=True
                )
    except TimeoutError as error:
        raise ProviderUnavailable(f"{url} did not answer in {TIMEOUT_S:g} s") from error
    refusal = refusal_of(answer)
    if refusal is not None and refusal.error in _TEMPORARY:
        raise ProviderUnavailable(f"{url} answers with {refusal.error}")
    return answer if refusal is None else refusal


def _tokens(url: str, answer: dict[str, Any]) -> OAuthTokens:
    kind, seconds = answer.get("token_type"), answer.get("expires_in")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise ProviderFault(f"{url} answers without a bearer token")
    found = {}
    for name in ("access_token", "id_token", "refresh_token"):
        token = answer.get(name, "")
        # JSON's null is what some providers send for none.
        found[name] = token = "" if token is None else token
        if not isinstance(token, str) or (token and _TOKEN.fullmatch(token) is None):
            raise ProviderFault(f"{url} answers with an unusable {name}")
    if not found["access_token"]:
        raise ProviderFault(f"{url} answers without an access_token")
    return OAuthTokens(**found, expires_in=seconds_of(seconds))


def seconds_of(value: object) -> float | None:
    """Return a number of seconds in an answer, which some providers send as a text; else None."""
    text = str(value) if type(value) in {str, int, float} else ""
    return float(text) if _SECONDS.fullmatch(text) else None
