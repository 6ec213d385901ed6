"""CSRF protection: forms are accepted only from this server's own pages.

A form must come from this origin and carry a token that no other site can read.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from litestar import Request, Response
from litestar.datastructures import State

from streams.auth.principal import authenticates, optional_principal
from streams.http.problems import HTTPProblem, problem
from streams.pages.login.browser_sessions import session_of

FIELD: Final = "form_token"
"""The hidden field that carries the CSRF token."""
MAX_BYTES: Final = 65_536
"""Maximum size of a form; a provider's token may take 24 KiB of it."""
_MAX_FIELDS: Final = 200
_FORM: Final = "application/x-www-form-urlencoded"
_SECRET: Final = "forms_secret"  # noqa: S105 - the key, not the secret


def set_form_secret(state: State) -> None:
    """Create the secret of the application's CSRF tokens, for as long as it runs."""
    state[_SECRET] = secrets.token_bytes(32)


def form_token(request: Request[Any, Any, Any]) -> str:
    """Return the CSRF token for forms on a page; empty for an unauthenticated caller.

    It belongs to the session. With a token added by a proxy it belongs to the name, and without
    authentication to the server. No page of another site can read any of them.
    """
    session = session_of(request)
    if session is not None:
        return _token_for(request, b"session:" + session.key)
    who = optional_principal(request)
    if who is not None:
        return _token_for(request, f"name:{who.kind}:{who.name}".encode())
    return "" if authenticates(request) else _token_for(request, b"anybody")


def sign_in_form_token(request: Request[Any, Any, Any], cookie: str) -> str:
    """Return the CSRF token of the sign-in form, which belongs to a cookie of its own."""
    return _token_for(request, b"stranger:" + cookie.encode())


async def read_form(request: Request[Any, Any, Any], expected: str | None = None) -> dict[str, str]:
    """Return the fields of a form that was sent from this server's own pages.

    Args:
        expected: the CSRF token; by default `form_token`.

    Raises:
        HTTPProblem: it comes from another site (403), or is not a form (400, 415).
        HTTPException: it is too long (413).
    """
    _check_origin(request)
    declared = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if declared != _FORM:
        raise HTTPProblem(problem(415, "unsupported_media_type", f"content-type must be {_FORM}"))
    body = await request.body()
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS
        )
    except ValueError:
        raise HTTPProblem(problem(400, "form_malformed", "the body is not a form")) from None
    form = dict(pairs)
    if len(form) != len(pairs):
        raise HTTPProblem(problem(400, "form_malformed", "the form has a field twice"))
    sent = form.pop(FIELD, "").encode()
    # An empty expectation would accept an empty token: never compare with one.
    wanted = (form_token(request) if expected is None else expected).encode()
    if not wanted or not hmac.compare_digest(sent, wanted):
        raise HTTPProblem(
            _foreign_form("the form belongs to another session, or the server has restarted since")
        )
    return form


def _check_origin(request: Request[Any, Any, Any]) -> None:
    """Check by the browser's headers that a page of this server sent the form.

    Raises: HTTPProblem.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        if site == "same-origin":
            return
        raise HTTPProblem(_foreign_form("a page of another site sent the form"))
    # Browsers send Sec-Fetch-Site only to https and to this machine; else compare Origin.
    origin = request.headers.get("origin", "")
    host = request.headers.get("host", "").lower()
    try:
        named = urlsplit(origin).netloc.lower()
    except ValueError:
        named = ""
    if not host or named != host:
        raise HTTPProblem(
            _foreign_form("the browser did not confirm that a page of this server sent the form")
        )


def _foreign_form(why: str) -> Response[bytes]:
    what = f"{why}. Nothing was done. Reload the page and send the form again."
    return problem(403, "form_refused", what)


def _token_for(request: Request[Any, Any, Any], whose: bytes) -> str:
    secret: bytes = request.app.state[_SECRET]
    return hmac.new(secret, whose, "sha256").hexdigest()
