"""Signing in at the provider: its address for a browser, and tokens for a code."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Final

import httpx

from streams.auth.sign_in_client import SignInClient
from streams.oauth.endpoint_cache import EndpointCache
from streams.oauth.offline_access import asks_for_refresh_token, consent_fields
from streams.oauth.pkce import METHOD, challenge_of
from streams.oauth.provider_http import ProviderUnavailable
from streams.oauth.token_endpoint import OAuthRefusal, OAuthTokens, TokenEndpoint
from streams.pages.login.pending_sign_ins import PendingSignIn, PendingSignIns
from streams.settings.access import MOST_TOKEN

MOST_AT_ONCE: Final = 50
"""Token requests at a time. Above this a sign-in gets 503 at once, and a refresh is tried later."""


class ProviderClient:
    """This server as a client of the provider.

    Args:
        now: monotonic seconds.
    """

    def __init__(self, settings: SignInClient, now: Callable[[], float]) -> None:
        self._settings = settings
        self._endpoints = EndpointCache(settings.issuer, now)
        self._requests = 0
        self.pending = PendingSignIns(now)

    @property
    def client_id(self) -> str:
        """The audience of ID tokens for this server."""
        return self._settings.client.client_id

    @property
    def asks_for_refresh_token(self) -> bool:
        """Whether the scopes contain `offline_access`."""
        return asks_for_refresh_token(self._settings.scopes)

    async def sign_in_url(self, pending: PendingSignIn) -> str:
        """Return the provider's address at which a browser signs in.

        Raises: ProviderUnavailable.
        """
        endpoints = await self._endpoints.find()
        fields = {
            # The settings may name another prompt.
            **consent_fields(self._settings.scopes),
            **self._settings.parameters,
            "response_type": "code",
            "client_id": self.client_id,
            # From the setting: a Host header is whatever the sender wrote.
            "redirect_uri": self._settings.redirect_url,
            "scope": self._settings.scopes,
            "state": pending.state,
            "nonce": pending.nonce,
            "code_challenge": challenge_of(pending.verifier),
            "code_challenge_method": METHOD,
        }
        endpoint = endpoints.require("authorization_endpoint")
        return str(httpx.URL(endpoint).copy_merge_params(fields))

    async def is_answer_of(self, issuer: str | None) -> bool:
        """Tell whether an answer with a parameter `iss` is of this provider (RFC 9207).

        Args:
            issuer: None without the parameter.

        Raises: ProviderUnavailable.
        """
        if issuer is not None:
            return issuer == self._settings.issuer
        return not (await self._endpoints.find()).names_issuer

    async def exchange(self, code: str, pending: PendingSignIn) -> OAuthTokens | OAuthRefusal:
        """Exchange a code for tokens.

        Raises: ProviderUnavailable.
        """
        with self._counted():
            endpoint = await self._token_endpoint()
            return await endpoint.exchange_code(
                code=code,
                redirect_url=self._settings.redirect_url,
                verifier=pending.verifier,
                more=self._settings.token_parameters,
            )

    async def refresh(self, refresh_token: str, timeout_s: float) -> OAuthTokens | OAuthRefusal:
        """Exchange a refresh token.

        Args:
            timeout_s: seconds, for the whole.

        Raises: ProviderUnavailable.
        """
        try:
            with self._counted():
                async with asyncio.timeout(timeout_s):
                    endpoint, more = await self._token_endpoint(), self._settings.token_parameters
                    return await endpoint.refresh(refresh_token, more=more)
        except TimeoutError as error:
            raise ProviderUnavailable(f"it did not answer in {timeout_s:g} s") from error

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        if self._requests >= MOST_AT_ONCE:
            raise ProviderUnavailable(f"{MOST_AT_ONCE} requests wait for the provider already")
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1

    async def _token_endpoint(self) -> TokenEndpoint:
        return TokenEndpoint(await self._endpoints.find(), self._settings.client)


def storable(refresh_token: str) -> str:
    """Return a refresh token that a session may store, empty for one that is too long."""
    return refresh_token if len(refresh_token) <= MOST_TOKEN else ""
