"""How a door knows a browser: by a cookie that counts for pages alone and stands for a token."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, cast
from urllib.parse import quote

from litestar import Request, Response
from litestar.datastructures import Cookie
from litestar.types import HTTPScope

from streams.auth.principal import Principal
from streams.http.refusal import Refusal, refusal_response
from streams.pages.assets import ADDRESSES
from streams.pages.paths import SIGN_IN, is_page, sign_in_for, wants_page
from streams.pages.render import problem_page
from streams.pages.sessions import SESSION, Session, Sessions

_STATE: Final = "browsers"
_ID: Final = re.compile(r"[A-Za-z0-9_-]{43}")

Headers = Iterable[tuple[bytes, bytes]]


class Browsers:
    """The browsers of a door that knows who asks.

    Args:
        is_private: browsers come over TLS, so that a cookie is never sent without.

    Attributes:
        open: the paths that strangers are answered at: to sign in, and how that looks.
    """

    def __init__(self, sessions: Sessions, *, is_private: bool) -> None:
        self.sessions = sessions
        self.open = frozenset({SIGN_IN, *ADDRESSES})
        self._is_private = is_private
        # With `__Host-` a browser refuses the cookie of any other host, and one without TLS.
        prefix = "__Host-" if is_private else ""
        self.session_cookie = f"{prefix}accountant-session"
        self.form_cookie = f"{prefix}accountant-form"

    def credentials(self, scope: HTTPScope) -> Headers:
        """Return the headers by which somebody is known, at a page those of their session.

        A header that is there goes before a cookie: a proxy may have added it.
        """
        headers = scope["headers"]
        if not is_page(scope["path"]) or any(name == b"authorization" for name, _ in headers):
            return headers
        given = cookie_of(headers, self.session_cookie)
        session = None if given is None else self.sessions.find(given)
        if session is None:
            return headers
        cast(Any, scope)[SESSION] = session
        return [(b"authorization", b"Bearer " + session.token.encode())]

    def resolve(self, scope: HTTPScope, found: Principal | Refusal) -> Principal | Refusal:
        """Return who asks; the session whose token does not hold any more is over."""
        session = cast(Any, scope).get(SESSION)
        if not isinstance(session, Session):
            return found
        if isinstance(found, Principal) and found == session.principal:
            return found
        if isinstance(found, Refusal) and found.status != 401:
            return found  # it cannot be told now, and may hold again
        self.sessions.end(session)
        cast(Any, scope)[SESSION] = None
        return found if isinstance(found, Refusal) else Refusal(401, "token of another")

    def refusal_page(self, scope: HTTPScope, refusal: Refusal) -> Response[Any] | None:
        """Return what a browser is told that is not let in, None for whoever is no browser."""
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
        """Return a cookie that no script reads, no other site sends, and that ends by itself."""
        secure = self._is_private
        return Cookie(name, "/", value=value, secure=secure, httponly=True, samesite="strict")

    def no_cookie(self, name: str) -> Cookie:
        """Return what has a browser forget a cookie."""
        gone = self.cookie(name, "")
        gone.max_age = 0
        return gone

    def is_id(self, text: str | None) -> bool:
        """Tell whether a text can be what this door puts into a cookie."""
        return text is not None and _ID.fullmatch(text) is not None


def cookie_of(headers: Headers, name: str) -> str | None:
    """Return the value of a cookie; None where there is none, or more than one of the name."""
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


def browsers_of(request: Request[Any, Any, Any]) -> Browsers | None:
    """Return the browsers of a door, None where authentication is off."""
    found = request.app.state.get(_STATE)
    return found if isinstance(found, Browsers) else None


def keep_browsers(state: Any, browsers: Browsers) -> None:
    """Have the requests of an application find its browsers."""
    state[_STATE] = browsers
