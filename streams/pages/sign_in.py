"""Signing in with a token, and out."""

from __future__ import annotations

import secrets
from typing import Any, Final

from litestar import Response, get, post

from streams.auth.authenticator import Authenticator
from streams.auth.middleware import peer_of
from streams.auth.principal import Principal
from streams.http.context import HttpRequest, context_of
from streams.http.refusal import Refusal, refusal_response
from streams.logs import get_logger
from streams.pages.forms import MAX_BYTES, checked_form, stranger_token
from streams.pages.paths import HOME, SIGN_IN, SIGN_OUT, local
from streams.pages.render import problem_page, rendered
from streams.pages.session_auth import Browsers, browsers_of, cookie_of
from streams.pages.sessions import session_of

_log = get_logger(__name__)
_BYTES: Final = 32
_WRONG: Final = (
    "This door does not know the token: it may have expired, been revoked, or not be copied whole."
)


@get(SIGN_IN, include_in_schema=False)
async def sign_in_page(request: HttpRequest) -> Response[Any]:
    """Return the form for a token; who has signed in goes on."""
    browsers = browsers_of(request)
    wanted = local(request.query_params.get("next", HOME))
    if browsers is None or session_of(request) is not None:
        return _go(wanted)
    return _form(request, browsers, wanted)


@post(SIGN_IN, include_in_schema=False, status_code=200, request_max_body_size=MAX_BYTES)
async def sign_in(request: HttpRequest) -> Response[Any]:
    """Begin a session for a token that holds, under an id that the browser has not had before."""
    browsers = browsers_of(request)
    if browsers is None:
        return _go(HOME)
    cookie = _given(request, browsers)
    # A form of a page that was shown to another browser signs nobody in.
    expected = "" if cookie is None else stranger_token(request, cookie)
    form = await checked_form(request, expected)
    token, wanted = form.get("token", "").strip(), local(form.get("next", HOME))
    authenticator: Authenticator = request.app.state["authenticator"]
    shown = [(b"authorization", b"Bearer " + token.encode())]
    found = await authenticator.authenticate(shown, peer=peer_of(request.scope))
    if not isinstance(found, Principal):
        if found.status != 401:
            return problem_page(request, refusal_response(found))
        return _form(request, browsers, wanted, wrong=_wrong(found))
    before = session_of(request)
    if before is not None:
        browsers.sessions.end(before)
    made = browsers.sessions.begin(found, token)
    _log.info("signed_in", name=found.name, kind=found.kind)
    begun = browsers.cookie(browsers.session_cookie, made)
    return _go(wanted, begun, browsers.no_cookie(browsers.form_cookie))


@post(SIGN_OUT, include_in_schema=False, status_code=200, request_max_body_size=MAX_BYTES)
async def sign_out(request: HttpRequest) -> Response[Any]:
    """End the session; its cookie is worth nothing from now on, wherever a copy of it is."""
    await checked_form(request)
    browsers, session = browsers_of(request), session_of(request)
    if browsers is None or session is None:
        return _go(HOME)
    browsers.sessions.end(session)
    _log.info("signed_out", name=session.principal.name, kind=session.principal.kind)
    return _go(SIGN_IN, browsers.no_cookie(browsers.session_cookie))


def _wrong(refusal: Refusal) -> str:
    return f"{refusal.what[0].upper()}{refusal.what[1:]}." if refusal.field else _WRONG


def _form(
    request: HttpRequest, browsers: Browsers, wanted: str, *, wrong: str = ""
) -> Response[Any]:
    """Return the page with the form, of this browser alone."""
    cookie = _given(request, browsers) or secrets.token_urlsafe(_BYTES)
    cookies = [browsers.cookie(browsers.form_cookie, cookie)]
    headers = request.scope["headers"]
    has_cookie = cookie_of(headers, browsers.session_cookie) is not None
    has_ended = has_cookie and session_of(request) is None
    if has_ended:
        cookies.append(browsers.no_cookie(browsers.session_cookie))
    # From a link on another site a browser sends no cookie; from a link of this page it does.
    is_elsewhere = request.headers.get("sec-fetch-site") == "cross-site"
    return rendered(
        request,
        "sign_in.html",
        status=401 if wrong else 200,
        cookies=cookies,
        form_token=stranger_token(request, cookie),
        next=wanted,
        wrong=wrong,
        has_ended=has_ended,
        goes_on=wanted if is_elsewhere and not wrong else "",
        provider=context_of(request).settings.oidc_issuer or "",
    )


def _given(request: HttpRequest, browsers: Browsers) -> str | None:
    cookie = cookie_of(request.scope["headers"], browsers.form_cookie)
    return cookie if browsers.is_id(cookie) else None


def _go(where: str, *cookies: Any) -> Response[Any]:
    """Return an answer that has a browser load a page."""
    headers = {"Location": where, "Cache-Control": "no-store"}
    return Response(
        b"", status_code=303, media_type="text/html", headers=headers, cookies=[*cookies]
    )
