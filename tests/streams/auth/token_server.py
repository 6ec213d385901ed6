"""A real server with a file of tokens, and perhaps an OpenID provider."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx

from streams.auth import token_file
from streams.server.app import Pages
from streams.settings import Settings
from tests.streams.auth.provider import AUDIENCE, LocalProvider
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import opening

ADMINISTRATOR = "local:olga"


def wall() -> int:
    return time.time_ns() // 1_000_000


class TokenServer(LocalServer):
    """A server with dataset `census`; it sends an administrator's token by default.

    Attributes:
        tokens: the file of static tokens; names begin with `local:`.
    """

    def __init__(
        self,
        directory: Path,
        *,
        provider: LocalProvider | None = None,
        pages: Pages | None = None,
        **more: Any,
    ) -> None:
        self.tokens = directory / "tokens.json"
        self.administrator = self.make(ADMINISTRATOR)
        known: dict[str, Any] = {
            "port": 0,
            "tokens": self.tokens,
            "token_prefix": "local:",
            "administrators": ADMINISTRATOR,
        }
        if provider is not None:
            known |= {"oidc_issuer": provider.issuer, "oidc_audience": AUDIENCE}
        settings = Settings(**(known | more))
        super().__init__(directory / "ledger.db", TestClock(), settings, pages=pages)
        body = {**opening(self.clock, access="anyone"), "by": ADMINISTRATOR}
        opened = self.post("/datasets?new=true", body, authorization=f"Bearer {self.administrator}")
        assert opened.status_code == 200, opened.text

    def make(self, name: str, **more: Any) -> str:
        """Make a token of a name."""
        return token_file.create(self.tokens, name, now=wall(), **more).token

    def get(self, path: str, token: str | bytes | None, **headers: str) -> httpx.Response:
        """Ask with a token, or without."""
        shown = token if isinstance(token, bytes) else f"Bearer {token}".encode()
        given = {} if token is None else {"Authorization": shown}
        return self.http.get(path, headers={**given, **headers})  # type: ignore[arg-type]

    def status(self, token: str | bytes | None, path: str = "/me") -> int:
        return self.get(path, token).status_code
