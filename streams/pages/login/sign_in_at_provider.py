"""Signing in at the provider: authorization code with PKCE, begun and finished by one browser.

Neither answer is a redirect. A form's redirect to another site would have to be allowed by every
page's policy, for all sites to which the provider passes a browser on; and after the provider's
redirect a browser sends no strict cookie until a page of this site leads on.
"""

from __future__ import annotations

import secrets
from typing import Any, Final

from litestar import Response, get, post

from streams.auth.authenticator import Authenticator
from streams.auth.middleware import peer_of
from streams.auth.oidc import TokenIdentity
from streams.auth.sign_in_client import CALLBACK
from streams.http.context import HttpRequest, context_of
from streams.http.refusal import Refusal
from streams.oauth.provider_http import ProviderFault, ProviderUnavailable
from streams.oauth.token_endpoint import OAuthRefusal, OAuthTokens, refusal_of
from streams.pages.csrf import MAX_BYTES, read_form, sign_in_form_token
from streams.pages.login.browser_sessions import session_of
from streams.pages.login.pending_sign_ins import PendingSignIn
from streams.pages.login.provider_client import ProviderClient
from streams.pages.login.session_auth import (
    SessionAuth,
    cookie_of,
    provider_client_of,
    session_auth_of,
)
from streams.pages.login.session_refresh import grant_of
from streams.pages.login.sign_in import form_cookie, redirect_to, sign_in_form
from streams.pages.paths import HOME, START, local, sign_in_for
from streams.pages.render import render_page
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_BYTES: Final = 32
_MOST_QUERY: Final = 8_192
_AWAY: Final = (
    "Your organisation's sign-in does not answer. Try again in a moment, or sign in with a token."
)
_FAULT: Final = (
    "Your organisation's sign-in gives an answer that cannot be used. The reason is in the "
    "server's log: show this page to whoever runs the server. Or sign in with a token."
)
_NOT_OURS: Final = (
    "This browser did not begin this sign-in, began it more than 10 minutes ago, or has finished "
    "it already. Nothing was done. Begin at {origin}, with cookies allowed."
)
_OTHER_PROVIDER: Final = "The answer is of another provider. Nothing was done."
_NO_CODE: Final = "The provider's answer has no code. Nothing was done."
_NOT_ACCEPTED: Final = (
    "The provider signed you in, but this server does not accept its tokens. The reason is in the "
    "server's log: show this page to whoever runs the server."
)

_NOT_RENEWABLE: Final = (
    "ACCOUNTANT_OIDC_SCOPES has offline_access, and the provider gave no refresh token that can be "
    "stored: allow refresh tokens for this client. The session ends with its access token"
)


@post(START, include_in_schema=False, status_code=200, request_max_body_size=MAX_BYTES)
async def start_at_provider(request: HttpRequest) -> Response[Any]:
    """Begin to sign in at the provider; the answer leads the browser there."""
    browsers, client = session_auth_of(request), provider_client_of(request)
    if browsers is None or client is None:
        return redirect_to(HOME)
    proof = form_cookie(request, browsers)
    form = await read_form(request, "" if proof is None else sign_in_form_token(request, proof))
    target, session = local(form.get("next", HOME)), session_of(request)
    sent = cookie_of(request.scope["headers"], browsers.sign_in_cookie)
    # A browser's sign-ins share a cookie, so that two tabs can sign in side by side.
    cookie = sent if sent is not None and browsers.is_id(sent) else secrets.token_urlsafe(_BYTES)
    pending = client.pending.begin(cookie, target, None if session is None else session.key)
    try:
        where = await client.sign_in_url(pending)
    except ProviderUnavailable as error:
        _log.warning("sign_in_unavailable", why=str(error))
        wrong = _words_of(error)
        return sign_in_form(request, browsers, target, wrong=wrong, status=503, is_token=False)
    return _leads_to(
        request,
        where,
        title="Sign in",
        place=" to your organisation's sign-in",
        cookies=[browsers.cookie_for_return(cookie)],
    )


@get(CALLBACK, include_in_schema=False)
async def finish_at_provider(request: HttpRequest) -> Response[Any]:
    """Begin a session for the person that the provider has signed in; its id is new."""
    browsers, client = session_auth_of(request), provider_client_of(request)
    if browsers is None or client is None:
        return redirect_to(HOME)
    answer = _answer_of(request)
    cookie = cookie_of(request.scope["headers"], browsers.sign_in_cookie)
    pending = client.pending.take(cookie or "", answer.get("state", ""))
    if cookie is None or pending is None:
        origin = _origin(request)
        return _failed(request, HOME, _NOT_OURS.format(origin=origin), "state", status=400)
    sent = context_of(request).clock.monotonic()
    try:
        if not await client.is_answer_of(answer.get("iss")):
            return _failed(request, pending.target, _OTHER_PROVIDER, "other issuer", status=400)
        found = refusal_of(answer) or await _exchange(client, answer.get("code", ""), pending)
    except ProviderUnavailable as error:
        return _failed(request, pending.target, _words_of(error), str(error), status=503)
    if found is None:
        return _failed(request, pending.target, _NO_CODE, "no code", status=400)
    if isinstance(found, OAuthRefusal):
        what = _refused(found)
        return _failed(request, pending.target, what, found.error, status=403)
    return await _begin_session(request, browsers, client, pending, found, sent)


def _words_of(error: ProviderUnavailable) -> str:
    return _FAULT if isinstance(error, ProviderFault) else _AWAY


async def _exchange(
    client: ProviderClient, code: str, pending: PendingSignIn
) -> OAuthTokens | OAuthRefusal | None:
    return await client.exchange(code, pending) if code else None


async def _begin_session(
    request: HttpRequest,
    browsers: SessionAuth,
    client: ProviderClient,
    pending: PendingSignIn,
    tokens: OAuthTokens,
    sent: float,
) -> Response[Any]:
    authenticator: Authenticator = request.app.state["authenticator"]
    who: TokenIdentity | Refusal = await authenticator.check_sign_in(
        tokens.access_token,
        tokens.id_token,
        client_id=client.client_id,
        nonce=pending.nonce,
        peer=peer_of(request.scope),
    )
    if isinstance(who, Refusal):
        is_away = who.status == 503
        what = _AWAY if is_away else _NOT_ACCEPTED
        return _failed(request, pending.target, what, who.why, status=503 if is_away else 403)
    if pending.replaces is not None:
        browsers.sessions.end_key(pending.replaces)
    grant = grant_of(tokens, who.subject, sent)
    made = browsers.sessions.begin(who.principal, tokens.access_token, grant)
    name, is_renewable = who.principal.name, bool(grant.refresh_token)
    _log.info("signed_in", name=name, kind=who.principal.kind, renewable=is_renewable)
    if client.asks_for_refresh_token and not is_renewable:
        _log.warning("refresh_token_missing", name=name, why=_NOT_RENEWABLE)
    return _leads_to(
        request,
        pending.target,
        title="Signed in",
        place="",
        cookies=[
            browsers.cookie(browsers.session_cookie, made),
            browsers.no_cookie(browsers.form_cookie),
        ],
    )


def _answer_of(request: HttpRequest) -> dict[str, str]:
    """Return the fields of the provider's answer; none if one of them comes twice."""
    if len(request.scope["query_string"]) > _MOST_QUERY:
        return {}
    pairs = list(request.query_params.multi_items())
    fields = dict(pairs)
    return fields if len(fields) == len(pairs) else {}


def _refused(refusal: OAuthRefusal) -> str:
    said = f": {refusal.description}" if refusal.description else ""
    return f"The provider did not sign you in ({refusal.error}{said}). Nothing was done."


def _origin(request: HttpRequest) -> str:
    return (context_of(request).settings.oidc_redirect_url or "").removesuffix(CALLBACK)


def _failed(
    request: HttpRequest, target: str, what: str, why: str, *, status: int
) -> Response[Any]:
    _log.warning("sign_in_refused", why=why)
    return render_page(
        request, "sign_in_failed.html", status=status, what=what, again=sign_in_for(target)
    )


def _leads_to(
    request: HttpRequest, where: str, *, title: str, place: str, cookies: list[Any]
) -> Response[Any]:
    """Return a page that leads the browser on at once, and has a link for those that do not."""
    made = render_page(
        request, "continue.html", cookies=cookies, title=title, continue_to=where, place=place
    )
    made.headers["Refresh"] = f"0; url={where}"
    return made
