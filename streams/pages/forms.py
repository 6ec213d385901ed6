"""Forms that only a page of this door can send: another site's is refused, whatever it holds."""

from __future__ import annotations

import hmac
import secrets
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from litestar import Request, Response
from litestar.datastructures import State

from streams.auth.principal import authenticates, optional_principal
from streams.http.problems import HTTPProblem, problem
from streams.pages.sessions import session_of

FIELD: Final = "form_token"
"""The hidden field of each form."""
MAX_BYTES: Final = 65_536
"""Of a form that is sent; a provider's token alone may take 24 KiB of it."""
_MOST_FIELDS: Final = 200
_FORM: Final = "application/x-www-form-urlencoded"
_SECRET: Final = "forms_secret"  # noqa: S105 - a place, not the secret


def keep_secret(state: State) -> None:
    """Give an application the secret that its forms are proved by, for as long as it runs."""
    state[_SECRET] = secrets.token_bytes(32)


def form_token(request: Request[Any, Any, Any]) -> str:
    """Return what a form must hold that this page shows; nothing for a stranger.

    It is of the session where there is one. Where a proxy says who asks, it is of the name, and
    where the door knows nobody, of the door: no page of another site can read either.
    """
    session = session_of(request)
    if session is not None:
        return _proof(request, b"session:" + session.key)
    who = optional_principal(request)
    if who is not None:
        return _proof(request, f"name:{who.kind}:{who.name}".encode())
    return "" if authenticates(request) else _proof(request, b"anybody")


def stranger_token(request: Request[Any, Any, Any], cookie: str) -> str:
    """Return what the form must hold that a stranger signs in by, beside a cookie."""
    return _proof(request, b"stranger:" + cookie.encode())


async def checked_form(
    request: Request[Any, Any, Any], expected: str | None = None
) -> dict[str, str]:
    """Return the fields of a form that a page of this door has sent, each once.

    Args:
        expected: what its hidden field must hold; `form_token` unless told.

    Raises:
        HTTPProblem: it comes from elsewhere (403), or is no form (400, 415).
        HTTPException: it is too long (413).
    """
    _check_origin(request)
    declared = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if declared != _FORM:
        raise HTTPProblem(problem(415, "unsupported_media_type", f"content-type must be {_FORM}"))
    body = await request.body()
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS
        )
    except ValueError:
        raise HTTPProblem(problem(400, "form_malformed", "the body is no form")) from None
    form = dict(pairs)
    if len(form) != len(pairs):
        raise HTTPProblem(problem(400, "form_malformed", "a field is there twice"))
    given = form.pop(FIELD, "").encode()
    wanted = (form_token(request) if expected is None else expected).encode()
    if not wanted or not hmac.compare_digest(given, wanted):
        raise HTTPProblem(_not_ours("the form is of another session, or of before a restart"))
    return form


def _check_origin(request: Request[Any, Any, Any]) -> None:
    """Check that a page of this door sends a form, by the word of the browser alone.

    Raises: HTTPProblem.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        if site == "same-origin":
            return
        raise HTTPProblem(_not_ours("a page of another site has sent it"))
    # Browsers send the first header to https and to this machine alone.
    origin = request.headers.get("origin", "")
    host = request.headers.get("host", "").lower()
    try:
        named = urlsplit(origin).netloc.lower()
    except ValueError:
        named = ""
    if not host or named != host:
        raise HTTPProblem(
            _not_ours("the browser does not say that a page of this door has sent it")
        )


def _not_ours(why: str) -> Response[bytes]:
    what = f"{why}: nothing was done. Open the page anew and send the form again."
    return problem(403, "form_refused", what)


def _proof(request: Request[Any, Any, Any], whose: bytes) -> str:
    secret: bytes = request.app.state[_SECRET]
    return hmac.new(secret, whose, "sha256").hexdigest()
