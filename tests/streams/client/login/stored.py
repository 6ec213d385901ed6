"""Logins as the tests store them."""

from __future__ import annotations

from streams.client.login.stored_login import StoredLogin, server_url, store_login
from streams.clock import SystemClock
from tests.streams.client.login.login_provider import LoginProvider
from tests.streams.oauth.sign_in_provider import CLIENT

CLOCK = SystemClock()
MINUTE_MS = 60_000


def make_login(
    url: str,
    provider: LoginProvider | None = None,
    *,
    access_token: str = "the.access.token",
    refresh_token: str | None = None,
    expires_in_ms: int = 10 * MINUTE_MS,
) -> StoredLogin:
    """Store a login that was issued ten minutes before its expiry.

    Args:
        refresh_token: by default one that the provider has issued.
    """
    if refresh_token is None:
        refresh_token = "" if provider is None else new_refresh_token(provider)
    expires = CLOCK.now() + expires_in_ms
    issuer = "https://login.example" if provider is None else provider.issuer
    login = StoredLogin(
        version=1,
        url=server_url(url),
        issuer=issuer,
        client_id=CLIENT,
        token_endpoint=f"{issuer}/token",
        revocation_endpoint=None,
        more={},
        access_token=access_token,
        refresh_token=refresh_token,
        issued=expires - 10 * MINUTE_MS,
        expires=expires,
    )
    store_login(login)
    return login


def new_refresh_token(provider: LoginProvider) -> str:
    made = provider._made("ana", nonce=None, is_new=True)
    return str(made["refresh_token"])
