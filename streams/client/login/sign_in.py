"""Signs in to a server and out of it: the steps of `accountant login` and `accountant logout`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

from accountant.records.http_bodies import Me
from streams.client.http.bearer import Bearer
from streams.client.http.service import HttpService
from streams.client.login.refresh import with_tokens
from streams.client.login.request import LoginRequest
from streams.client.login.stored_login import (
    StoredLogin,
    delete_login,
    find_login,
    has_login,
    lock_login,
    server_url,
    store_login,
)
from streams.clock import Clock
from streams.errors import Refused, Unauthenticated
from streams.oauth.endpoints import ProviderEndpoints, read_endpoints
from streams.oauth.provider_http import provider_http
from streams.oauth.revocation import revoke_refresh_token
from streams.oauth.token_endpoint import TIMEOUT_S, OAuthTokens
from streams.settings.access import fault_of_token


async def check_needs_login(url: str) -> None:
    """Check that a server answers at an address and requires authentication, without a token.

    Raises:
        Refused: it authenticates nobody, or it is no such server.
        Unavailable: it does not answer.
    """
    with suppress(Unauthenticated):
        await _me(url, None)
        raise Refused(
            f"{url} has no authentication, so there is nothing to sign in to: everyone who can "
            "reach it has full access"
        )


async def find_endpoints(issuer: str) -> ProviderEndpoints:
    """Return a provider's endpoints.

    Raises: ProviderUnavailable.
    """
    async with provider_http(issuer, TIMEOUT_S) as http:
        return await read_endpoints(http, issuer)


async def sign_in(
    url: str,
    request: LoginRequest,
    flow: Callable[[LoginRequest], Awaitable[OAuthTokens]],
    clock: Clock,
) -> tuple[StoredLogin, Me]:
    """Get tokens from the provider, show the server the new one, and store the login.

    Args:
        flow: how the person signs in at the provider.

    Raises:
        Refused: the provider or the server refused; nothing was stored.
        Unavailable, ProviderUnavailable: one of them does not answer; nothing was stored.
    """
    tokens = await flow(request)
    fault = fault_of_token(tokens.access_token)
    if fault:
        raise Refused(f"the provider's token cannot be used: {fault}")
    try:
        me = await _me(url, Bearer(tokens.access_token))
    except Unauthenticated as error:
        raise Refused(
            f"{url} rejects the provider's token, so nothing was stored: {error}. Check that the "
            "server has the same issuer, and that the token names its audience (--audience, "
            "--resource, --scopes)"
        ) from error
    endpoints = request.endpoints
    login = StoredLogin(
        version=1,
        url=server_url(url),
        issuer=endpoints.issuer,
        client_id=request.client.client_id,
        token_endpoint=endpoints.require("token_endpoint"),
        revocation_endpoint=endpoints.revocation_endpoint,
        more=request.token_fields,
        access_token="",
        refresh_token="",
        issued=0,
        expires=None,
    )
    login = with_tokens(login, tokens, clock.now())
    store_login(login)
    return login, me


async def _me(url: str, bearer: Bearer | None) -> Me:
    service = HttpService(url, bearer)
    try:
        return await service.me()
    finally:
        await service.close()


async def sign_out(url: str) -> bool | None:
    """Delete the login of a server, then revoke its refresh token at the provider.

    Returns: whether it was revoked; None if there is nothing to revoke.

    Raises:
        FileNotFoundError: there is no login. Refused: its file cannot be deleted.
        ProviderUnavailable: the login is deleted, but its refresh token was not revoked.
    """
    if not has_login(url):
        raise FileNotFoundError(url)
    login = None
    with lock_login(url):  # a refresh that runs now must not bring it back
        with suppress(Refused):  # a damaged file is deleted too
            login = find_login(url)
        delete_login(url)
    if login is None or not login.refresh_token or login.revocation_endpoint is None:
        return None
    await revoke_refresh_token(
        issuer=login.issuer,
        url=login.revocation_endpoint,
        client_id=login.client_id,
        token=login.refresh_token,
    )
    return True
