"""Signing in with a token, and signing out."""

from __future__ import annotations

import secrets
from typing import Any, Final

from litestar import Response, get, post

from streams.auth.authenticator import Authenticator
from streams.auth.middleware import peer_of
from streams.auth.principal import Principal
from streams.http.context import HttpRequest, context_of
from streams.http.refusal import Refusal, refusal_response
from streams.pages.csrf import MAX_BYTES, read_form, sign_in_form_token
from streams.pages.login.browser_sessions import session_of
from streams.pages.login.session_auth import (
    SessionAuth,
    cookie_of,
    provider_client_of,
    session_auth_of,
)
from streams.pages.paths import HOME, SIGN_IN, SIGN_OUT, local
from streams.pages.render import problem_page, render_page
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_BYTES: Final = 32
_SIGNED_OUT: Final = "signed-out"
_NOT_VALID: Final = (
    "This token is not valid: it may have expired, been revoked, or been copied incompletely."
)


@get(SIGN_IN, include_in_schema=False)
async def sign_in_page(request: HttpRequest) -> Response[Any]:
    """Return the form for a token; a signed-in browser is redirected at once."""
    browsers = session_auth_of(request)
    wanted = local(request.query_params.get("next", HOME))
    if browsers is None or session_of(request) is not None:
        return redirect_to(wanted)
    # A link on another site says nothing about a session here.
    is_own = request.headers.get("sec-fetch-site") != "cross-site"
    has_signed_out = is_own and _SIGNED_OUT in request.query_params
    return sign_in_form(request, browsers, wanted, has_signed_out=has_signed_out)


@post(SIGN_IN, include_in_schema=False, status_code=200, request_max_body_size=MAX_BYTES)
async def sign_in(request: HttpRequest) -> Response[Any]:
    """Begin a session for a valid token. Its id is new: an old one could be an attacker's."""
    browsers = session_auth_of(request)
    if browsers is None:
        return redirect_to(HOME)
    cookie = form_cookie(request, browsers)
    # The form must come from this browser: otherwise a site could sign its victim in as itself.
    expected = "" if cookie is None else sign_in_form_token(request, cookie)
    form = await read_form(request, expected)
    token, wanted = form.get("token", "").strip(), local(form.get("next", HOME))
    authenticator: Authenticator = request.app.state["authenticator"]
    shown = [(b"authorization", b"Bearer " + token.encode())]
    found = await authenticator.authenticate(shown, peer=peer_of(request.scope))
    if not isinstance(found, Principal):
        if found.status != 401:
            return problem_page(request, refusal_response(found))
        return sign_in_form(request, browsers, wanted, wrong=_wrong(found))
    before = session_of(request)
    if before is not None:
        browsers.sessions.end(before)
    made = browsers.sessions.begin(found, token)
    _log.info("signed_in", name=found.name, kind=found.kind, renewable=False)
    begun = browsers.cookie(browsers.session_cookie, made)
    return redirect_to(wanted, begun, browsers.no_cookie(browsers.form_cookie))


@post(SIGN_OUT, include_in_schema=False, status_code=200, request_max_body_size=MAX_BYTES)
async def sign_out(request: HttpRequest) -> Response[Any]:
    """End the session in the server, so that copies of its cookie are worthless too."""
    await read_form(request)
    browsers, session = session_auth_of(request), session_of(request)
    if browsers is None or session is None:
        return redirect_to(HOME)
    browsers.sessions.end(session)
    _log.info("signed_out", name=session.principal.name, kind=session.principal.kind)
    return redirect_to(f"{SIGN_IN}?{_SIGNED_OUT}=yes", browsers.no_cookie(browsers.session_cookie))


def _wrong(refusal: Refusal) -> str:
    return f"{refusal.what[0].upper()}{refusal.what[1:]}." if refusal.field else _NOT_VALID


def sign_in_form(
    request: HttpRequest,
    browsers: SessionAuth,
    wanted: str,
    *,
    wrong: str = "",
    status: int | None = None,
    is_token: bool = True,
    has_signed_out: bool = False,
) -> Response[Any]:
    """Return the page with the form, bound to this browser by a cookie.

    Args:
        wrong: why the last attempt failed.
        status: of the answer; by default 401 after a failed attempt.
        is_token: whether the field for a token is what was wrong.
        has_signed_out: the browser comes from `Sign out`.
    """
    cookie = form_cookie(request, browsers) or secrets.token_urlsafe(_BYTES)
    cookies = [browsers.cookie(browsers.form_cookie, cookie)]
    headers, settings = request.scope["headers"], context_of(request).settings
    has_cookie = cookie_of(headers, browsers.session_cookie) is not None
    has_ended = has_cookie and session_of(request) is None
    if has_ended:
        cookies.append(browsers.no_cookie(browsers.session_cookie))
    # A strict cookie is not sent after a link on another site, but it is after a link on this page.
    is_elsewhere = request.headers.get("sec-fetch-site") == "cross-site"
    return render_page(
        request,
        "sign_in.html",
        status=status or (401 if wrong else 200),
        cookies=cookies,
        form_token=sign_in_form_token(request, cookie),
        next=wanted,
        wrong=wrong,
        is_token_wrong=bool(wrong) and is_token,
        has_ended=has_ended,
        has_signed_out=has_signed_out,
        continue_to=wanted if is_elsewhere and not wrong else "",
        provider=settings.oidc_issuer or "",
        has_tokens=settings.tokens is not None,
        by_redirect=provider_client_of(request) is not None,
    )


def form_cookie(request: HttpRequest, browsers: SessionAuth) -> str | None:
    """Return the cookie to which this browser's form belongs, None without one."""
    cookie = cookie_of(request.scope["headers"], browsers.form_cookie)
    return cookie if browsers.is_id(cookie) else None


def redirect_to(where: str, *cookies: Any) -> Response[Any]:
    """Return a redirect."""
    headers = {"Location": where, "Cache-Control": "no-store"}
    return Response(
        b"", status_code=303, media_type="text/html", headers=headers, cookies=[*cookies]
    )
