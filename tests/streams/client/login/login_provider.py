"""A provider for `accountant login`: any loopback port, sign-in by device, and revocation."""

from __future__ import annotations

import json
import secrets
import time
from email.message import Message
from typing import Any
from urllib.parse import urlsplit

from tests.streams.auth.provider import Answer
from tests.streams.oauth.sign_in_provider import SignInProvider

DEVICE = "urn:ietf:params:oauth:grant-type:device_code"


class AnyLoopbackPort(set[str]):
    """The registered address `http://127.0.0.1/callback`, with any port (RFC 8252, 7.3)."""

    def __contains__(self, url: object) -> bool:
        parts = urlsplit(str(url))
        return (parts.scheme, parts.hostname, parts.path) == ("http", "127.0.0.1", "/callback")


class LoginProvider(SignInProvider):
    """See `SignInProvider`.

    Attributes:
        device_errors: with which the next polls of a device are answered; then tokens follow.
        device_seconds: lifetime of a device's code.
        has_device, has_revocation: whether it offers these endpoints.
        revokes: whether a revocation succeeds.
        polls: the times of the polls, by the clock that only rises.
        revoked: the forms of each revocation.
        devices: the forms of each sign-in by device.
    """

    def __init__(self) -> None:
        self.device_errors: list[str] = []
        self.device_seconds = 60
        self.has_device = True
        self.has_revocation = True
        self.revokes = True
        self.polls: list[float] = []
        self.revoked: list[dict[str, str]] = []
        self.devices: list[dict[str, str]] = []
        self._device_codes: set[str] = set()
        super().__init__()
        self.callbacks = AnyLoopbackPort()

    def discovery(self) -> dict[str, Any]:
        found = super().discovery()
        if self.has_device:
            found["device_authorization_endpoint"] = f"{self.issuer}/device"
        if self.has_revocation:
            found["revocation_endpoint"] = f"{self.issuer}/revoke"
        return found

    def answer_form(self, path: str, form: dict[str, str], headers: Message) -> Answer:
        if path == "/device":
            return self._begin_device(form)
        if path == "/revoke":
            self.revoked.append(form)
            self._refresh_tokens.pop(form["token"], None)
            return (200 if self.revokes else 503), b"", {}
        return super().answer_form(path, form, headers)

    def _begin_device(self, form: dict[str, str]) -> Answer:
        self.devices.append(form)
        code = secrets.token_urlsafe(16)
        self._device_codes.add(code)
        found = {
            "device_code": code,
            "user_code": "WDJB-MJHT",
            "verification_uri": f"{self.issuer}/code",
            "verification_uri_complete": f"{self.issuer}/code?user_code=WDJB-MJHT",
            "expires_in": self.device_seconds,
            "interval": 1,
        }
        return 200, json.dumps(found).encode(), {}

    def _tokens(self, form: dict[str, str], headers: Message) -> tuple[str | None, dict[str, Any]]:
        if form["grant_type"] != DEVICE:
            return super()._tokens(form, headers)
        self.polls.append(time.monotonic())
        if form["device_code"] not in self._device_codes:
            return "invalid_grant", {}
        if self.device_errors:
            return self.device_errors.pop(0), {}
        self._device_codes.remove(form["device_code"])
        return None, self._made(self.person, nonce=None, is_new=self.refreshes)
