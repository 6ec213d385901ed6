"""A running client renews its login, one process at a time, and sends it to its server alone."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from streams.client import Accountant, AsyncAccountant, Unauthenticated, Unavailable
from streams.client.http.login_auth import LoginAuth
from streams.client.login.refresh import refresh_login
from streams.client.login.stored_login import delete_login, find_login, login_file
from streams.errors import Refused
from streams.files.private_files import lock_against_writers
from tests.patience import PATIENCE_S
from tests.streams.auth.token_server import TokenServer
from tests.streams.cli.conftest import environment
from tests.streams.client.login.login_provider import LoginProvider
from tests.streams.client.login.stored import CLOCK, make_login, new_refresh_token

STARTS = ()


@pytest.fixture
def server(tmp_path: Path, provider: LoginProvider, logins: Path) -> Iterator[TokenServer]:
    home = tmp_path / "server"
    home.mkdir()
    with TokenServer(home, provider=provider) as running:
        yield running


def store_valid(server: TokenServer, provider: LoginProvider, expires_in_ms: int = 60_000) -> None:
    make_login(
        server.url, provider, access_token=provider.token("ana"), expires_in_ms=expires_in_ms
    )


def test_a_running_client_renews_its_token(server: TokenServer, provider: LoginProvider) -> None:
    make_login(server.url, provider, access_token="expired", expires_in_ms=-1)
    first = find_login(server.url)
    with Accountant(server.url) as ledger:
        assert ledger.me().name == "ana"
        renewed = find_login(server.url)
        assert first is not None
        assert renewed is not None
        assert renewed.refresh_token != first.refresh_token  # the provider has rotated it
        assert renewed.access_token != first.access_token
        assert ledger.me().name == "ana"
        assert len(provider.forms) == 1
        store_valid(server, provider, expires_in_ms=1_000)  # soon expired
        assert ledger.me().name == "ana"
        assert len(provider.forms) == 2

    async def run() -> None:
        make_login(server.url, provider, access_token="expired", expires_in_ms=-1)
        async with AsyncAccountant(server.url) as ledger:
            names = await asyncio.gather(*(ledger.me() for _ in range(20)))
            assert {each.name for each in names} == {"ana"}

    asyncio.run(run())
    assert len(provider.forms) == 3  # one refresh for twenty calls
    assert {form["grant_type"] for form in provider.forms} == {"refresh_token"}


def test_a_provider_that_does_not_rotate_keeps_its_refresh_token(
    server: TokenServer, provider: LoginProvider
) -> None:
    provider.rotates = False
    before = make_login(server.url, provider, access_token="expired", expires_in_ms=-1)
    after = refresh_login(server.url, CLOCK)
    assert after.refresh_token == before.refresh_token
    assert find_login(server.url) == after


def test_two_processes_refresh_once(server: TokenServer, provider: LoginProvider) -> None:
    make_login(server.url, provider, access_token="expired", expires_in_ms=-1)
    program = "from streams import Accountant; import sys; print(Accountant(sys.argv[1]).me().name)"
    with lock_against_writers(login_file(server.url)):
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", program, server.url],
                env=environment(),
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(3)
        ]
        time.sleep(2)  # they have started by then, and wait for the lock
    assert [process.communicate(timeout=PATIENCE_S)[0] for process in processes] == ["ana\n"] * 3
    assert len(provider.forms) == 1


def test_a_refused_refresh_ends_the_login(server: TokenServer, provider: LoginProvider) -> None:
    make_login(server.url, provider, access_token="expired", expires_in_ms=-1)
    provider._refresh_tokens.clear()
    again = f"has ended: .*invalid_grant.*Run `accountant login {server.url}`"
    with Accountant(server.url) as ledger:
        with pytest.raises(Unauthenticated, match=again):
            ledger.me()
        assert find_login(server.url) is None
        with pytest.raises(Unauthenticated, match=f"Run `accountant login {server.url}`"):
            ledger.me()
    assert len(provider.forms) == 1


def test_a_valid_token_is_used_while_the_provider_is_away(
    server: TokenServer, provider: LoginProvider
) -> None:
    store_valid(server, provider, expires_in_ms=30_000)
    provider.away = True
    with Accountant(server.url) as ledger:
        for _ in range(3):
            assert ledger.me().name == "ana"
    assert len(provider.forms) == 1  # and the provider is not asked at each request
    make_login(server.url, provider, access_token="expired", expires_in_ms=-1)
    with (
        Accountant(server.url) as ledger,
        pytest.raises(Unavailable, match="has expired, and the provider does not renew it now"),
    ):
        ledger.me()
    assert find_login(server.url) is not None


def test_a_logout_stops_a_running_client(server: TokenServer, provider: LoginProvider) -> None:
    store_valid(server, provider)
    with Accountant(server.url) as ledger:
        assert ledger.me().name == "ana"
        assert delete_login(server.url)
        with pytest.raises(Unauthenticated, match=f"Run `accountant login {server.url}`"):
            ledger.me()
    with (
        Accountant(server.url) as ledger,
        pytest.raises(Unauthenticated, match=f"with `accountant login {server.url}`"),
    ):
        ledger.me()


def test_a_token_that_the_server_rejects_names_the_command(
    server: TokenServer, provider: LoginProvider
) -> None:
    make_login(server.url, provider, access_token="unknown")
    with (
        Accountant(server.url) as ledger,
        pytest.raises(Unauthenticated, match=f"does not know .*`accountant login {server.url}`"),
    ):
        ledger.me()


class Recorder:
    """A server that records the tokens it gets, and redirects to another address.

    Attributes:
        tokens: the Authorization header of each request.
    """

    def __init__(self, target: str) -> None:
        recorder = self
        self.tokens: list[str | None] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                recorder.tokens.append(self.headers.get("Authorization"))
                self.send_response(307)
                self.send_header("Location", f"{target}{self.path}")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def test_a_login_is_sent_to_its_own_server_and_follows_no_redirect(logins: Path) -> None:
    with Recorder("http://127.0.0.1:9") as elsewhere, Recorder(elsewhere.url) as own:
        make_login(own.url)
        with Accountant(own.url) as ledger, pytest.raises(Refused, match="307"):
            ledger.me()
        assert own.tokens == ["Bearer the.access.token"]
        assert elsewhere.tokens == []
        with Accountant(elsewhere.url) as ledger, pytest.raises(Refused, match="307"):
            ledger.me()
        assert elsewhere.tokens == [None]


@pytest.mark.parametrize(
    "url",
    ["https://ledger.example:8443/me", "https://other.example/me", "https://ledger.example/x"],
)
def test_no_request_to_another_address_gets_the_token(logins: Path, url: str) -> None:
    make_login("https://ledger.example/lab")
    auth = LoginAuth("https://ledger.example/lab", "https://login.example")

    async def first(url: str) -> httpx.Request:
        return await anext(auth.async_auth_flow(httpx.Request("GET", url)))

    sent = asyncio.run(first("https://ledger.example/lab/me"))
    assert sent.headers["Authorization"] == "Bearer the.access.token"
    with pytest.raises(Refused, match=r"a sign-in at https://ledger.example/lab is not sent to"):
        asyncio.run(first(url))


def test_another_users_refresh_token_is_no_help(provider: LoginProvider, logins: Path) -> None:
    make_login("http://127.0.0.1:9", provider, refresh_token="forged", expires_in_ms=-1)
    with pytest.raises(Unauthenticated):
        refresh_login("http://127.0.0.1:9", CLOCK)
    assert new_refresh_token(provider) in provider._refresh_tokens
