"""A server whose people sign in at a provider, and their browsers."""

from __future__ import annotations

import re
import socket
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

from streams.pages import PAGES
from tests.streams.auth.token_server import ADMINISTRATOR, TokenServer
from tests.streams.gateway.records import new_id, opening
from tests.streams.oauth.sign_in_provider import CLIENT, SignInProvider
from tests.streams.pages.people import Person


def free_port() -> int:
    """Return a port that is free now; the redirect address must name it before the start."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


class ProviderServer(TokenServer):
    """A server whose people sign in at a provider; olga owns `survey`, ana is its analyst.

    The administrator has a static token.

    Args:
        host: the server's name in the redirect address.
    """

    def __init__(
        self, directory: Path, provider: SignInProvider, *, host: str = "127.0.0.1", **settings: Any
    ) -> None:
        self.provider = provider
        port = free_port()
        self.callback = f"http://{host}:{port}/sign-in/callback"
        provider.callbacks = {self.callback}
        known = {
            "port": port,
            "oidc_client_id": CLIENT,
            "oidc_redirect_url": self.callback,
        }
        super().__init__(
            directory,
            provider=provider,
            pages=PAGES,
            **{name: value for name, value in (known | settings).items() if value is not None},
        )
        body = opening(self.clock, "survey", access="members")
        body |= {"by": ADMINISTRATOR, "owners": ["olga"]}
        self.send("/datasets", body, self.administrator)
        self.enrol("ana", "analyst")

    def enrol(self, member: str, *roles: str) -> None:
        """Have olga say what somebody may do on `survey`."""
        named = {"version": 1, "type": "member", "request_id": new_id(self.clock), "by": "olga"}
        body = {**named, "dataset": "survey", "member": member, "roles": roles}
        self.send("/datasets/survey/members", body, self.provider.token("olga", oid="olga"))

    def send(self, path: str, body: dict[str, Any], token: str) -> None:
        """Send a body with a token."""
        found = self.post(path, body, authorization=f"Bearer {token}")
        assert found.status_code == 200, found.text


class ProviderPerson(Person):
    """Somebody at a browser, who can sign in at the provider."""

    def __init__(self, server: ProviderServer) -> None:
        super().__init__(server)
        self.provider = server.provider

    def start(self, *, next_: str = "/", **headers: str) -> httpx.Response:
        """Press the button that begins a sign-in."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        form = {"form_token": self.form_token(), "next": next_}
        return self.http.post("/sign-in/start", data=form, headers=named)

    def provider_answer(self, started: httpx.Response) -> str:
        """Return the address to which the provider sends the browser back."""
        answer = httpx.get(leads_to(started), trust_env=False, verify=TokenServer.verify)
        assert answer.status_code == 303, answer.text
        return str(answer.headers["location"])

    def finish(self, where: str) -> httpx.Response:
        """Follow the provider's redirect: strict cookies stay at home."""
        return self.http.get(
            where, headers={"sec-fetch-site": "cross-site", "cookie": self._lax_cookies()}
        )

    def _lax_cookies(self) -> str:
        lax = [
            cookie
            for cookie in self.http.cookies.jar
            if str(cookie.get_nonstandard_attr("SameSite")).lower() == "lax"
        ]
        return "; ".join(f"{cookie.name}={cookie.value}" for cookie in lax)

    def sign_in_at_provider(self, *, next_: str = "/") -> httpx.Response:
        """Sign in as the provider's person."""
        return self.finish(self.provider_answer(self.start(next_=next_)))


def leads_to(answer: httpx.Response) -> str:
    """Return the address to which a page leads on, by header and by link alike."""
    assert answer.status_code == 200, answer.text
    seconds, _, where = answer.headers["refresh"].partition("; url=")
    assert seconds == "0"
    found = re.search(r'<p><a href="([^"]*)">Continue', answer.text)
    assert found is not None
    assert unescape(found[1]) == where
    return str(where)


def fields_of(address: str) -> dict[str, str]:
    """Return the fields of an address, each of which it has once."""
    return {name: value for name, (value,) in parse_qs(urlsplit(address).query).items()}
