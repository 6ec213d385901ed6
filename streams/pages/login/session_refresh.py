"""Refreshing a session's tokens at the provider, a little before they expire."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from streams.auth.authenticator import Authenticator
from streams.http.refusal import Refusal
from streams.oauth.provider_http import ProviderUnavailable
from streams.oauth.token_endpoint import OAuthRefusal, OAuthTokens
from streams.pages.login.browser_sessions import BrowserSession, BrowserSessions, ProviderGrant
from streams.pages.login.provider_client import ProviderClient, storable
from streams.telemetry.logs import get_logger

EARLY_S: Final = 60.0
"""Tokens are refreshed so long before they expire, shorter ones at two thirds of their time."""
WAIT_S: Final = 5.0
"""The longest wait of a request for a refresh."""
RETRY_S: Final = 10.0
"""Minimum time between two attempts for a session while the provider is away."""

_log = get_logger(__name__)


def grant_of(tokens: OAuthTokens, subject: object, now: float) -> ProviderGrant:
    """Return what a session keeps of the provider's answer besides the access token.

    Args:
        now: monotonic seconds at which the request was sent.
    """
    lasts = tokens.expires_in
    early = EARLY_S if lasts is None else lasts - min(EARLY_S, lasts / 3)
    return ProviderGrant(
        refresh_token=storable(tokens.refresh_token),
        subject=subject,
        refresh_at=now + early,
        # If the provider does not say, the check of the token at each request notices.
        expires_at=math.inf if lasts is None else now + lasts,
    )


class SessionRefresh:
    """Refreshes tokens when a request needs them: nothing runs for a browser that is closed.

    Args:
        now: monotonic seconds.
    """

    def __init__(
        self,
        sessions: BrowserSessions,
        client: ProviderClient,
        authenticator: Authenticator,
        now: Callable[[], float],
    ) -> None:
        self._sessions = sessions
        self._client = client
        self._authenticator = authenticator
        self._now = now

    async def refreshed(self, session: BrowserSession) -> BrowserSession | None:
        """Return a session with a token that has not expired, None if the session has ended."""
        grant = session.grant
        if grant is None:
            return session
        if grant.refresh_token and self._now() >= grant.refresh_at:
            # One refresh for all requests: a provider that rotates refresh tokens takes a second
            # use of one for a theft.
            if session.refreshing is None or session.refreshing.done():
                session.refreshing = asyncio.create_task(
                    self._refresh(session, grant), name="session refresh"
                )
            # Shielded: others wait for the same refresh if this browser disconnects.
            await asyncio.shield(session.refreshing)
        if session.grant is not None and self._now() >= session.grant.expires_at:
            self._sessions.end(session)
        return session if self._sessions.has(session) else None

    async def _refresh(self, session: BrowserSession, grant: ProviderGrant) -> None:
        sent = self._now()
        try:
            found = await self._client.refresh(grant.refresh_token, WAIT_S)
        except ProviderUnavailable as error:
            _log.warning("session_not_refreshed", name=session.principal.name, why=str(error))
            session.grant = replace(grant, refresh_at=sent + RETRY_S)
            return
        why = await self._use(session, grant, found, sent)
        if why:
            self._sessions.end(session)
            _log.warning("session_refused", name=session.principal.name, why=why)

    async def _use(
        self,
        session: BrowserSession,
        grant: ProviderGrant,
        found: OAuthTokens | OAuthRefusal,
        sent: float,
    ) -> str:
        """Give a session its new tokens; return why it must end instead, empty if it need not."""
        if isinstance(found, OAuthRefusal):
            return f"{found.error} {found.description}".strip()
        who = await self._authenticator.identify(found.access_token)
        if isinstance(who, Refusal):
            return who.why
        if (who.principal, who.subject) != (session.principal, grant.subject):
            return "token of another"
        made = grant_of(found, who.subject, sent)
        # A provider that does not rotate refresh tokens sends none.
        session.token = found.access_token
        session.grant = replace(made, refresh_token=made.refresh_token or grant.refresh_token)
        return ""
