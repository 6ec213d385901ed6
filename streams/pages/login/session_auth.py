"""Session authentication: on pages, a browser's cookie stands for the token of its session."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, cast
from urllib.parse import quote

from litestar import Request, Response
from litestar.datastructures import Cookie
from litestar.types import HTTPScope

from streams.auth.principal import Principal
from streams.auth.sign_in_client import CALLBACK
from streams.http.refusal import Refusal, refusal_response
from streams.pages.assets import ADDRESSES
from streams.pages.login.browser_sessions import SESSION, BrowserSession, BrowserSessions
from streams.pages.login.pending_sign_ins import PATIENCE_S
from streams.pages.login.provider_client import ProviderClient
from streams.pages.login.session_refresh import SessionRefresh
from streams.pages.paths import SIGN_IN, START, is_page, sign_in_for, wants_page
from streams.pages.render import problem_page

_STATE: Final = "session_auth"
_CLIENT: Final = "provider_client"
_ID: Final = re.compile(r"[A-Za-z0-9_-]{43}")

Headers = Iterable[tuple[bytes, bytes]]


class SessionAuth:
    """Authenticates browsers by session cookies, on the pages' paths only.

    Args:
        is_private: browsers connect over TLS, so cookies are marked `Secure`.
        refresh: refreshes the tokens of sessions, None without sign-in by redirect.

    Attributes:
        open: the public paths: signing in, and its styles.
    """

    def __init__(
        self, sessions: BrowserSessions, *, is_private: bool, refresh: SessionRefresh | None = None
    ) -> None:
        self.sessions = sessions
        at_provider = set() if refresh is None else {START, CALLBACK}
        self.open = frozenset({SIGN_IN, *at_provider, *ADDRESSES})
        self._refresh = refresh
        self._is_private = is_private
        # `__Host-` makes browsers refuse the cookie from any other host, or without TLS.
        prefix = "__Host-" if is_private else ""
        self.session_cookie = f"{prefix}accountant-session"
        self.form_cookie = f"{prefix}accountant-form"
        self.sign_in_cookie = f"{prefix}accountant-sign-in"

    async def credentials(self, scope: HTTPScope) -> Headers:
        """Return the headers for authentication; on a page, the session's token, refreshed.

        An Authorization header takes precedence over the cookie: a proxy may have added it.
        """
        headers = scope["headers"]
        if not is_page(scope["path"]) or any(name == b"authorization" for name, _ in headers):
            return headers
        cookie = cookie_of(headers, self.session_cookie)
        session = None if cookie is None else self.sessions.find(cookie)
        if session is not None and self._refresh is not None:
            session = await self._refresh.refreshed(session)
        if session is None:
            return headers
        cast(Any, scope)[SESSION] = session
        return [(b"authorization", b"Bearer " + session.token.encode())]

    def resolve(self, scope: HTTPScope, found: Principal | Refusal) -> Principal | Refusal:
        """Return the outcome, and end a session whose token is no longer valid."""
        session = cast(Any, scope).get(SESSION)
        if not isinstance(session, BrowserSession):
            return found
        if isinstance(found, Principal) and found == session.principal:
            return found
        if isinstance(found, Refusal) and found.status != 401:
            return found  # tokens cannot be checked now; the session may still be valid
        self.sessions.end(session)
        cast(Any, scope)[SESSION] = None
        return found if isinstance(found, Refusal) else Refusal(401, "token of another")

    def refusal_page(self, scope: HTTPScope, refusal: Refusal) -> Response[Any] | None:
        """Return the answer for an unauthenticated browser, None for a program."""
        if not is_page(scope["path"]) or not wants_page(scope["headers"]):
            return None
        if refusal.status != 401:
            return problem_page(None, refusal_response(refusal))
        query = scope["query_string"].decode("latin-1")
        address = quote(scope["path"], safe="/:@") + (f"?{query}" if query else "")
        where = sign_in_for(address) if scope["method"] in {"GET", "HEAD"} else SIGN_IN
        headers = {"Location": where, "Cache-Control": "no-store"}
        return Response(b"", status_code=303, media_type="text/html", headers=headers)

    def cookie(self, name: str, value: str) -> Cookie:
        """Return a session cookie, hidden from scripts and never sent by other sites."""
        secure = self._is_private
        return Cookie(name, "/", value=value, secure=secure, httponly=True, samesite="strict")

    def cookie_for_return(self, value: str) -> Cookie:
        """Return the cookie of pending sign-ins, which comes back with the provider's redirect."""
        made = self.cookie(self.sign_in_cookie, value)
        made.samesite, made.max_age = "lax", int(PATIENCE_S)
        return made

    def no_cookie(self, name: str) -> Cookie:
        """Return a cookie that makes the browser delete its own."""
        gone = self.cookie(name, "")
        gone.max_age = 0
        return gone

    def is_id(self, text: str | None) -> bool:
        """Tell whether a text has the form of this server's cookies."""
        return text is not None and _ID.fullmatch(text) is not None


def cookie_of(headers: Headers, name: str) -> str | None:
    """Return the value of a cookie; None if it is missing or ambiguous."""
    found = [
        value.strip()
        for header, line in headers
        if header == b"cookie"
        for key, is_set, value in (
            each.partition("=") for each in line.decode("latin-1").split(";")
        )
        if is_set and key.strip() == name
    ]
    return found[0] if len(found) == 1 else None


def session_auth_of(request: Request[Any, Any, Any]) -> SessionAuth | None:
    """Return the application's session authentication, None where authentication is off."""
    found = request.app.state.get(_STATE)
    return found if isinstance(found, SessionAuth) else None


def provider_client_of(request: Request[Any, Any, Any]) -> ProviderClient | None:
    """Return the application's client of the provider, None without sign-in by redirect."""
    found = request.app.state.get(_CLIENT)
    return found if isinstance(found, ProviderClient) else None


def set_session_auth(state: Any, browsers: SessionAuth, client: ProviderClient | None) -> None:
    """Store the session authentication in an application's state."""
    state[_STATE] = browsers
    state[_CLIENT] = client
