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
from streams.logs import get_logger
from streams.pages.csrf import MAX_BYTES, read_form, sign_in_form_token
from streams.pages.paths import HOME, SIGN_IN, SIGN_OUT, local
from streams.pages.render import problem_page, render_page
from streams.pages.session_auth import SessionAuth, cookie_of, session_auth_of
from streams.pages.sessions import session_of

_log = get_logger(__name__)
_BYTES: Final = 32
_NOT_VALID: Final = (
    "This token is not valid: it may have expired, been revoked, or been copied incompletely."
)


@get(SIGN_IN, include_in_schema=False)
async def sign_in_page(request: HttpRequest) -> Response[Any]:
    """Return the form for a token; a signed-in browser is redirected at once."""
    browsers = session_auth_of(request)
    wanted = local(request.query_params.get("next", HOME))
    if browsers is None or session_of(request) is not None:
        return _redirect(wanted)
    return _form(request, browsers, wanted)


@post(SIGN_IN, include_in_schema=False, status_code=200, request_max_body_size=MAX_BYTES)
async def sign_in(request: HttpRequest) -> Response[Any]:
    """Begin a session for a valid token. Its id is new: an old one could be an attacker's."""
    browsers = session_auth_of(request)
    if browsers is None:
        return _redirect(HOME)
    cookie = _form_cookie(request, browsers)
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
        return _form(request, browsers, wanted, wrong=_wrong(found))
    before = session_of(request)
    if before is not None:
        browsers.sessions.end(before)
    made = browsers.sessions.begin(found, token)
    _log.info("signed_in", name=found.name, kind=found.kind)
    begun = browsers.cookie(browsers.session_cookie, made)
    return _redirect(wanted, begun, browsers.no_cookie(browsers.form_cookie))


@post(SIGN_OUT, include_in_schema=False, status_code=200, request_max_body_size=MAX_BYTES)
async def sign_out(request: HttpRequest) -> Response[Any]:
    """End the session in the server, so that copies of its cookie are worthless too."""
    await read_form(request)
    browsers, session = session_auth_of(request), session_of(request)
    if browsers is None or session is None:
        return _redirect(HOME)
    browsers.sessions.end(session)
    _log.info("signed_out", name=session.principal.name, kind=session.principal.kind)
    return _redirect(SIGN_IN, browsers.no_cookie(browsers.session_cookie))


def _wrong(refusal: Refusal) -> str:
    return f"{refusal.what[0].upper()}{refusal.what[1:]}." if refusal.field else _NOT_VALID


def _form(
    request: HttpRequest, browsers: SessionAuth, wanted: str, *, wrong: str = ""
) -> Response[Any]:
    """Return the page with the form, bound to this browser by a cookie."""
    cookie = _form_cookie(request, browsers) or secrets.token_urlsafe(_BYTES)
    cookies = [browsers.cookie(browsers.form_cookie, cookie)]
    headers = request.scope["headers"]
    has_cookie = cookie_of(headers, browsers.session_cookie) is not None
    has_ended = has_cookie and session_of(request) is None
    if has_ended:
        cookies.append(browsers.no_cookie(browsers.session_cookie))
    # A strict cookie is not sent after a link on another site, but it is after a link on this page.
    is_elsewhere = request.headers.get("sec-fetch-site") == "cross-site"
    return render_page(
        request,
        "sign_in.html",
        status=401 if wrong else 200,
        cookies=cookies,
        form_token=sign_in_form_token(request, cookie),
        next=wanted,
        wrong=wrong,
        has_ended=has_ended,
        continue_to=wanted if is_elsewhere and not wrong else "",
        provider=context_of(request).settings.oidc_issuer or "",
    )


def _form_cookie(request: HttpRequest, browsers: SessionAuth) -> str | None:
    cookie = cookie_of(request.scope["headers"], browsers.form_cookie)
    return cookie if browsers.is_id(cookie) else None


def _redirect(where: str, *cookies: Any) -> Response[Any]:
    """Return a redirect."""
    headers = {"Location": where, "Cache-Control": "no-store"}
    return Response(
        b"", status_code=303, media_type="text/html", headers=headers, cookies=[*cookies]
    )
