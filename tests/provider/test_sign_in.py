"""People sign in on the server's pages at a real provider, and their sessions are refreshed."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from tests.provider.accountant_server import AccountantServer, until
from tests.provider.real_provider import RS256, SERVICES, Key, RealProvider, Service, free_port
from tests.streams.pages.login.provider_server import ProviderPerson, leads_to
from tests.streams.pages.people import Person

SHORT = SERVICES["soon over"]


class PagesServer(AccountantServer):
    """A server whose people sign in at the real provider; its tokens are of a service."""

    def __init__(
        self, home: Path, provider: RealProvider, first: Key, service: Service, **more: Any
    ) -> None:
        port = free_port()
        self.callback = f"http://127.0.0.1:{port}/sign-in/callback"
        provider.callbacks = [self.callback]
        provider.restart(first)
        known = {
            "oidc_client_id": "public-pages",
            "oidc_redirect_url": self.callback,
            "oidc_scopes": "openid offline_access",
            "oidc_sign_in_parameters": f"resource={service.indicator}",
            "oidc_skew_seconds": 0,
        }
        super().__init__(home, provider, port=port, **(known | more))


class RealPerson(ProviderPerson):
    """Somebody who signs in on the real provider's pages."""

    def __init__(self, server: PagesServer, provider: RealProvider, name: str) -> None:
        url = server.callback.removesuffix("/sign-in/callback")
        Person.__init__(self, SimpleNamespace(url=url, verify=True))  # type: ignore[arg-type]
        self.real, self.name = provider, name

    def provider_answer(self, started: httpx.Response) -> str:
        return self.real.walk(leads_to(started), self.name)


@pytest.mark.parametrize("client", ["public-pages", "pages"])
def test_a_person_signs_in_on_the_pages_and_out_again(
    tmp_path: Path, provider: RealProvider, first: Key, client: str
) -> None:
    more = {}
    if client == "pages":
        file = tmp_path / "secret"
        file.touch(0o600)
        file.write_text(provider.secret)
        more = {"oidc_client_secret_file": file}
    server = PagesServer(tmp_path / "server", provider, first, RS256, oidc_client_id=client, **more)
    with server, RealPerson(server, provider, "ana") as ana:
        where = ana.provider_answer(ana.start())
        assert leads_to(ana.finish(where)) == "/"
        assert "<b>ana</b>" in ana.look("/").text
        assert ana.finish(where).status_code == 400  # once
        assert ana.look("/me").status_code == 401
        assert ana.sign_out().status_code == 303
        assert ana.look("/").status_code == 303
        written = server.log.read_text()
        assert "signed_in" in written
        for secret in where.partition("?")[2].split("&"):
            name, _, value = secret.partition("=")
            assert name == "iss" or value not in written


def test_a_session_lasts_longer_than_its_tokens_until_the_provider_refuses(
    tmp_path: Path, provider: RealProvider, first: Key
) -> None:
    server = PagesServer(tmp_path / "server", provider, first, SHORT)
    with server, RealPerson(server, provider, "ana") as ana:
        assert leads_to(ana.sign_in_at_provider()) == "/"
        began = time.monotonic()
        while time.monotonic() < began + 3 * SHORT.seconds:
            assert ana.look("/").status_code == 200
            time.sleep(0.5)
        provider.restart(first)  # it forgets what it gave
        until("the end of the session", lambda: ana.look("/").status_code == 303)
        assert "session_refused" in server.log.read_text()
        assert leads_to(ana.sign_in_at_provider()) == "/"


@pytest.mark.parametrize("way", ["killed", "paused"])
def test_while_the_provider_is_away_a_session_ends_with_its_token(
    tmp_path: Path, provider: RealProvider, first: Key, way: str
) -> None:
    server = PagesServer(tmp_path / "server", provider, first, SHORT)
    with server, RealPerson(server, provider, "ana") as ana:
        assert leads_to(ana.sign_in_at_provider()) == "/"
        assert ana.look("/").status_code == 200
        if way == "killed":
            provider.stop()
        else:
            provider.pause()
        until("the end of the session", lambda: ana.look("/").status_code == 303)
        if way == "paused":
            provider.resume()
        assert ana.look("/").status_code == 303
