"""Sign-in with a browser on this machine: a code with PKCE, received on the loopback address.

RFC 8252, with `state` and the provider's own name in the answer (RFC 9207).
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import threading
import webbrowser
from collections.abc import Callable
from typing import Final
from urllib.parse import urlencode, urlsplit

from streams.client.login.loopback import LoopbackListener
from streams.client.login.request import LoginRequest, refused
from streams.errors import Refused
from streams.oauth.offline_access import consent_fields
from streams.oauth.pkce import METHOD, challenge_of, new_verifier
from streams.oauth.provider_http import ProviderFault
from streams.oauth.token_endpoint import OAuthRefusal, OAuthTokens, TokenEndpoint, refusal_of

WITHIN_S: Final = 300.0
"""Seconds in which a person must have signed in."""


async def sign_in_by_browser(
    request: LoginRequest,
    show: Callable[[str], None],
    *,
    port: int = 0,
    within: float = WITHIN_S,
) -> OAuthTokens:
    """Sign in with a browser on this machine.

    Args:
        show: shows the provider's address to a person, or opens it.
        port: the port to listen at, 0 for a free one.
        within: seconds to wait for the person.

    Raises:
        Refused: nobody signed in, or the answer is not of this sign-in.
        ProviderUnavailable: the provider does not answer.
        ProviderFault: its answer cannot be used.
    """
    verifier, state = new_verifier(), secrets.token_urlsafe(32)
    where = request.endpoints.require("authorization_endpoint")
    async with LoopbackListener(state, port) as listener:
        query = {
            **request.first_fields,
            **consent_fields(request.scope),
            "response_type": "code",
            "client_id": request.client.client_id,
            "redirect_uri": listener.url,
            "state": state,
            "code_challenge": challenge_of(verifier),
            "code_challenge_method": METHOD,
        }
        show(f"{where}{'&' if urlsplit(where).query else '?'}{urlencode(query)}")
        try:
            async with asyncio.timeout(within):
                fields = await listener.receive()
        except TimeoutError as error:
            raise Refused(
                f"nobody signed in within {within / 60:g} minutes. Run the command again"
            ) from error
        _check_issuer(request, fields)
        refusal = refusal_of(fields)
        if refusal is not None:
            raise refused(refusal)
        if not fields.get("code"):
            raise ProviderFault("its answer to the browser has neither a code nor an error")
        tokens = await TokenEndpoint(request.endpoints, request.client).exchange_code(
            code=fields["code"],
            redirect_url=listener.url,
            verifier=verifier,
            more=request.token_fields,
        )
    if isinstance(tokens, OAuthRefusal):
        raise refused(tokens)
    return tokens


def _check_issuer(request: LoginRequest, fields: dict[str, str]) -> None:
    """Check that the answer is of this provider (RFC 9207).

    Raises: Refused.
    """
    issuer = request.endpoints.issuer
    named = fields.get("iss")
    if named == issuer or (named is None and not request.endpoints.names_issuer):
        return
    raise Refused(
        f"the answer to the sign-in does not come from {issuer}. Nothing was sent; run the command "
        "again, and sign in only at that provider"
    )


def can_open_browser() -> bool:
    """Whether a browser of this machine can show a page to the person at the terminal."""
    environ = os.environ
    if environ.get("BROWSER"):
        return True
    if sys.platform == "darwin":
        return "SSH_CONNECTION" not in environ
    # Without a display, Python would start a browser of text in this terminal.
    return bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


def open_browser(url: str) -> None:
    """Open an address in the default browser, without waiting for it."""
    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
