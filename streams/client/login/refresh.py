"""Keeps a stored login valid: one process refreshes it, and all others use the new token."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from accountant.errors import BudgetError
from streams.client.login.stored_login import (
    StoredLogin,
    delete_login,
    find_login,
    lock_login,
    store_login,
)
from streams.clock import Clock
from streams.errors import Unauthenticated, Unavailable
from streams.oauth.endpoints import ProviderEndpoints
from streams.oauth.provider_http import ProviderFault, ProviderUnavailable
from streams.oauth.token_endpoint import OAuthClient, OAuthRefusal, OAuthTokens, TokenEndpoint

_ENDED: Final = "invalid_grant"
"""The provider's code for a refresh token that is revoked, used twice, or expired."""


def refresh_login(url: str, clock: Clock) -> StoredLogin:
    """Return a login whose token is valid for a while; refresh it if it is not.

    Blocks for up to some seconds: call it in a thread.

    Raises:
        Unauthenticated: the login has ended: sign in again.
        Unavailable: the provider does not answer, or not usably, and the token has expired.
        Refused: its file cannot be used.
    """
    with lock_login(url):
        # Another process may have refreshed it meanwhile, or signed out.
        login = find_login(url)
        if login is None:
            raise sign_in_again(url)
        if not login.needs_refresh(clock.now()):
            return login
        if not login.refresh_token:
            return _use_until_expiry(login, clock, sign_in_again(url))
        try:
            answer = asyncio.run(_refresh(login))
        except ProviderUnavailable as error:
            return _use_until_expiry(login, clock, _provider_away(login, error))
        if isinstance(answer, OAuthRefusal):
            if answer.error == _ENDED:
                delete_login(url)
                raise sign_in_again(url, answer.error)
            return _use_until_expiry(login, clock, sign_in_again(url, answer.error))
        refreshed = with_tokens(login, answer, clock.now())
        store_login(refreshed)
        return refreshed


async def _refresh(login: StoredLogin) -> OAuthTokens | OAuthRefusal:
    client = OAuthClient(client_id=login.client_id)
    endpoints = ProviderEndpoints(issuer=login.issuer, token_endpoint=login.token_endpoint)
    return await TokenEndpoint(endpoints, client).refresh(login.refresh_token, more=login.more)


def with_tokens(login: StoredLogin, tokens: OAuthTokens, now: int) -> StoredLogin:
    """Return a login with new tokens; a provider that does not rotate sends no refresh token."""
    seconds = tokens.expires_in
    return msgspec.structs.replace(
        login,
        access_token=tokens.access_token,
        refresh_token=tokens.refresh_token or login.refresh_token,
        issued=now,
        expires=None if seconds is None else now + int(seconds * 1_000),
    )


def _use_until_expiry(login: StoredLogin, clock: Clock, error: BudgetError) -> StoredLogin:
    """Return a login that cannot be refreshed now, while its token is valid; then raise."""
    if login.is_valid(clock.now()):
        return login
    raise error


def _provider_away(login: StoredLogin, why: ProviderUnavailable) -> Unavailable:
    if isinstance(why, ProviderFault):
        return Unavailable(
            f"your sign-in at {login.url} has expired, and the provider's answer cannot be used: "
            f"{why}. Tell whoever runs the provider; `accountant login {login.url}` signs in again"
        )
    return Unavailable(
        f"your sign-in at {login.url} has expired, and the provider does not renew it now: {why}. "
        "Check the network, then try again"
    )


def sign_in_again(url: str, refusal: str = "") -> Unauthenticated:
    """Return the error of a login that has ended.

    Args:
        refusal: the provider's code, if it refused to renew the login.
    """
    why = f": the provider refuses to renew it ({refusal})" if refusal else ""
    return Unauthenticated(f"your sign-in at {url} has ended{why}. Run `accountant login {url}`")
