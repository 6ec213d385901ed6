"""An OpenID provider of the tests' own in which people sign in: codes with PKCE, refresh tokens."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from email.message import Message
from html import escape
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from tests.streams.auth.provider import Answer, LocalProvider, b64

CLIENT = "accountant-pages"


class SignInProvider(LocalProvider):
    """A provider that signs `person` in at once, and answers as a test says.

    It is strict: unknown clients and addresses, codes without PKCE or used twice, and refresh
    tokens used twice are refused.

    Attributes:
        shows_page: people see a page of the provider's first, and press a button there.
        person: the subject of the next sign-in.
        secret: the client's, None for a public client.
        callbacks: registered redirect addresses.
        denied: the error to answer a sign-in with. refused: the error of each token request.
        away: the token endpoint answers with status 500.
        seconds: lifetime of access tokens. rotates: each refresh gives another refresh token.
        access, identity: claims that replace those of the next tokens.
        opaque: access tokens are no JWT.
        requests: the fields of each request to /authorize. forms: of each to /token.
        given: every token that was given.
    """

    def __init__(self, *, secret: str | None = None) -> None:
        self.shows_page = False
        self.person = "ana"
        self.secret = secret
        self.callbacks: set[str] = set()
        self.denied: str | None = None
        self.refused: str | None = None
        self.away = False
        self.seconds = 600
        self.rotates = True
        self.refreshes = True
        self.opaque = False
        self.access: dict[str, Any] = {}
        self.identity: dict[str, Any] = {}
        self.requests: list[dict[str, str]] = []
        self.forms: list[dict[str, str]] = []
        self.given: list[str] = []
        self.headers: list[Message] = []
        self._codes: dict[str, dict[str, str]] = {}
        self._refresh_tokens: dict[str, str] = {}
        super().__init__()

    def discovery(self) -> dict[str, Any]:
        return {
            **super().discovery(),
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "authorization_response_iss_parameter_supported": True,
        }

    def answer(self, path: str) -> Answer:
        parts = urlsplit(path)
        if parts.path != "/authorize" or self.broken is not None:
            return super().answer(path)
        query = dict(parse_qsl(parts.query))
        if self.shows_page and "agreed" not in query:
            again = escape(f"{path}&agreed=yes")
            return 200, f'<a href="{again}">Agree</a>'.encode(), {"Content-Type": "text/html"}
        return self._authorize(query)

    def _authorize(self, query: dict[str, str]) -> Answer:
        self.requests.append(query)
        where = query.get("redirect_uri", "")
        if query.get("client_id") != CLIENT or where not in self.callbacks:
            return 400, b"unknown client or address", {}  # never redirected to
        answer = {"state": query["state"], "iss": self.issuer}
        has_challenge = query.get("code_challenge_method") == "S256" and query.get("code_challenge")
        error = self.denied or (None if has_challenge else "invalid_request")
        if error is not None:
            answer |= {"error": error, "error_description": f"<b>{error}</b>\x07"}
        else:
            answer["code"] = code = secrets.token_urlsafe(16)
            self._codes[code] = {**query, "sub": self.person}
        return 303, b"", {"Location": f"{where}?{urlencode(answer)}"}

    def answer_form(self, path: str, form: dict[str, str], headers: Message) -> Answer:
        if path != "/token":
            return super().answer_form(path, form, headers)
        self.forms.append(form)
        self.headers.append(headers)
        if self.away or self.broken is not None:
            return 500, b"", {}
        error, tokens = self.refused, dict[str, Any]()
        if error is None:
            error, tokens = self._tokens(form, headers)
        if error is not None:
            problem = {"error": error, "error_description": f"<b>{error}</b>\x07"}
            return 400, json.dumps(problem).encode(), {}
        return 200, json.dumps(tokens).encode(), {"Cache-Control": "no-store"}

    def _tokens(self, form: dict[str, str], headers: Message) -> tuple[str | None, dict[str, Any]]:
        if not self._is_client(form, headers):
            return "invalid_client", {}
        if form["grant_type"] == "refresh_token":
            subject = self._refresh_tokens.get(form["refresh_token"])
            if subject is None:
                return "invalid_grant", {}
            if self.rotates:
                del self._refresh_tokens[form["refresh_token"]]
            return None, self._made(subject, nonce=None, is_new=self.rotates)
        asked = self._codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if (
            asked is None
            or b64(digest) != asked["code_challenge"]
            or form.get("redirect_uri") != asked["redirect_uri"]
        ):
            return "invalid_grant", {}
        return None, self._made(asked["sub"], nonce=asked.get("nonce"), is_new=self.refreshes)

    def _is_client(self, form: dict[str, str], headers: Message) -> bool:
        if self.secret is None:
            return form.get("client_id") == CLIENT
        kind, _, value = headers.get("Authorization", "").partition(" ")
        name, _, secret = base64.b64decode(value).decode().partition(":")
        return (kind, unquote(name), unquote(secret)) == ("Basic", CLIENT, self.secret)

    def _made(self, subject: str, *, nonce: str | None, is_new: bool) -> dict[str, Any]:
        expires = int(self.claims()["iat"]) + self.seconds
        token = self.token(
            subject, **{"exp": expires, "jti": secrets.token_urlsafe(8), **self.access}
        )
        identity = {"aud": CLIENT, "exp": expires, "nonce": nonce, **self.identity}
        made: dict[str, Any] = {
            "access_token": secrets.token_urlsafe(32) if self.opaque else token,
            "token_type": "Bearer",
            "expires_in": self.seconds,
            "id_token": self.token(subject, **identity),
        }
        if is_new:
            made["refresh_token"] = refresh = secrets.token_urlsafe(32)
            self._refresh_tokens[refresh] = subject
        self.given += [made[name] for name in made if name.endswith("_token")]
        return made
