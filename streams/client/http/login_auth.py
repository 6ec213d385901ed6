"""Sends the token of a stored login, and renews it while the program runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from typing import Final

import httpx

from streams.address import is_private_url
from streams.client.http.token_auth import TokenAuth
from streams.client.login.refresh import refresh_login, sign_in_again
from streams.client.login.stored_login import StoredLogin, find_login, plain_url
from streams.clock import Clock, SystemClock, steady
from streams.errors import Refused
from streams.files.private_files import state_directory

_RETRY_S: Final = 5.0
"""Seconds between two attempts to renew a token that is still valid."""


class LoginAuth(TokenAuth):
    """Sends a login's token to its own server.

    The file is read at each request, so a renewed token is used and `logout` takes effect at once.

    Args:
        url: the server, see `server_url`.
        issuer: the provider of the login.
        clock: the machine's clock by default: the provider's lifetimes pass by that.
    """

    def __init__(self, url: str, issuer: str, clock: Clock | None = None) -> None:
        self.source = f"accountant login ({issuer})"
        self.remedy = f"Run `accountant login {url}`"
        self._url = url
        self._clock = clock or SystemClock()
        self._retry_at = 0.0
        self._renewal: asyncio.Task[StoredLogin] | None = None

    def __repr__(self) -> str:
        return f"LoginAuth({self._url})"

    def sync_auth_flow(
        self, request: httpx.Request
    ) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the token to a request; renew it in the caller's thread.

        Raises: Unauthenticated, Unavailable, Refused: see `refresh_login`; or it goes elsewhere.
        """
        login = self._login(request.url)
        if self._is_due(login):
            login = refresh_login(self._url, self._clock)
        self._add(request, login)
        yield request

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Add the token to a request; renew it in another thread.

        Raises: as `sync_auth_flow`.
        """
        login = self._login(request.url)
        if self._is_due(login):
            login = await self._renewed()
        self._add(request, login)
        yield request

    def _login(self, url: httpx.URL) -> StoredLogin:
        """Return the login for a request."""
        if not f"{plain_url(url)}/".startswith(f"{self._url}/"):
            raise Refused(f"a sign-in at {self._url} is not sent to {url.host}")
        login = find_login(self._url)
        if login is None:
            raise sign_in_again(self._url)
        return login

    def _is_due(self, login: StoredLogin) -> bool:
        now = self._clock.now()
        return login.needs_refresh(now) and (steady() >= self._retry_at or not login.is_valid(now))

    def _add(self, request: httpx.Request, login: StoredLogin) -> None:
        if self._is_due(login):  # the provider does not renew it now, and it is still valid
            self._retry_at = steady() + _RETRY_S
        request.headers["Authorization"] = f"Bearer {login.access_token}"

    async def _renewed(self) -> StoredLogin:
        """Renew the login once for all requests that wait for it."""
        if self._renewal is None or self._renewal.done():
            renew = asyncio.to_thread(refresh_login, self._url, self._clock)
            self._renewal = asyncio.ensure_future(renew)
            self._renewal.add_done_callback(_ignore_unread_error)
        # Shielded: a cancelled request must not lose the provider's new refresh token.
        return await asyncio.shield(self._renewal)


def _ignore_unread_error(renewal: asyncio.Task[StoredLogin]) -> None:
    """Retrieve the error of a renewal, perhaps after all that waited for it were cancelled."""
    if not renewal.cancelled():
        renewal.exception()


def find_login_auth(url: str) -> LoginAuth | None:
    """Return the login of exactly this server, None without one.

    Raises: Refused: its file is unsafe or damaged.
    """
    # Without a home directory nobody has signed in, and no login is sent unencrypted.
    if state_directory("") is None or not is_private_url(url):
        return None
    login = find_login(url)
    return None if login is None else LoginAuth(login.url, login.issuer)
