"""A browser without a screen: it keeps cookies, and says whence a form comes."""

from __future__ import annotations

import re
from html import unescape
from typing import Self

import httpx

from tests.patience import PATIENCE_S
from tests.streams.gateway.local_server import LocalServer

FORM = re.compile(r'name="form_token" value="([^"]*)"')


class Person:
    """Somebody at a browser.

    Attributes:
        http: sends what a browser sends with a click; redirects are not followed.
    """

    def __init__(self, server: LocalServer) -> None:
        headers = {"accept": "text/html,*/*;q=0.8", "sec-fetch-site": "same-origin"}
        self.http = httpx.Client(
            base_url=server.url,
            timeout=PATIENCE_S,
            trust_env=False,
            verify=server.verify,
            headers=headers,
        )

    def look(self, path: str, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.get(path, headers=named)

    def form_token(self, path: str = "/sign-in") -> str:
        """Return the hidden field of the first form of a page."""
        found = FORM.search(self.look(path).text)
        assert found is not None, f"{path} has no form"
        return unescape(found[1])

    def sign_in(self, token: str, *, next_: str = "/") -> httpx.Response:
        form = {"form_token": self.form_token(), "token": token, "next": next_}
        return self.http.post("/sign-in", data=form)

    def sign_out(self) -> httpx.Response:
        return self.http.post("/sign-out", data={"form_token": self.form_token("/")})

    @property
    def session(self) -> str | None:
        """The value of the cookie of a session, None without one."""
        for cookie in self.http.cookies.jar:
            if cookie.name.endswith("accountant-session"):
                return cookie.value
        return None

    def close(self) -> None:
        self.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
