"""The connections at which a server with authentication listens."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from litestar import Litestar, get

from streams.auth.start import tls_of
from streams.embedded.file_lock import FileLock
from streams.server.app import create_app
from streams.server.connection_limits import BoundedServer
from streams.settings import Settings
from tests.streams.auth.certificates import Files, certificate
from tests.streams.auth.token_server import TokenServer
from tests.streams.server.scope import get_scope
from tests.streams.waiting import eventually


def context_trusting(files: Files) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(files.certificate))


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[TokenServer]:
    files = certificate(tmp_path)

    class Secure(TokenServer):
        verify = context_trusting(files)

    tls = {"tls_certificate": files.certificate, "tls_key": files.key}
    with Secure(tmp_path, **tls) as server:
        yield server


def test_a_server_with_a_certificate_accepts_only_tls(secure: TokenServer, tmp_path: Path) -> None:
    assert secure.url.startswith("https://127.0.0.1:")
    assert secure.status(secure.administrator) == 200
    assert secure.status(None) == 401
    owner = FileLock(tmp_path / "ledger.db").owner()
    assert owner is not None
    assert owner.address == secure.url
    with pytest.raises(httpx.HTTPError):
        httpx.get(secure.url.replace("https", "http"), trust_env=False)
    with pytest.raises(httpx.ConnectError):  # a client that does not know who signed
        httpx.get(secure.url, trust_env=False)


def test_a_server_with_a_certificate_answers_to_its_host_name(secure: TokenServer) -> None:
    answer = secure.get("/me", secure.administrator, Host="census.example.org")
    assert answer.status_code == 200


def test_tls_below_version_1_2_is_disabled(tmp_path: Path) -> None:
    files = certificate(tmp_path)
    tls = tls_of(Settings(tls_certificate=files.certificate, tls_key=files.key))
    assert tls is not None
    assert tls.minimum_version == ssl.TLSVersion.TLSv1_2


async def test_unfinished_tls_handshakes_count_towards_the_connection_limit(tmp_path: Path) -> None:
    @get("/")
    async def page() -> str:
        return "here"

    files = certificate(tmp_path)
    tls = tls_of(Settings(tls_certificate=files.certificate, tls_key=files.key))
    server = BoundedServer(
        Litestar([page]),
        tls=tls,
        max_connections=3,
        host="127.0.0.1",
        port=0,
        timeout_graceful_shutdown=1,
    )
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 (as the worker's server waits)
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.suppress(ConnectionResetError):
        assert await reader.read() == b""  # rejected at once
    writer.close()
    for _, each in silent:
        each.close()
    async with httpx.AsyncClient(verify=context_trusting(files), trust_env=False) as client:
        while True:
            try:
                answer = await client.get(f"https://127.0.0.1:{port}/")
                break
            except httpx.HTTPError:  # the silent ones are being ended
                await asyncio.sleep(0.05)
    assert answer.text == "here"
    server.should_exit = True
    await serving


async def answered(app: Litestar, peer: str, path: str, token: str, *headers: Any) -> int:
    """Return the status of GET as a server calls the server for a peer."""
    statuses = list[int]()

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    scope = get_scope(path) | {"client": (peer, 1)}
    scope["headers"] = [
        (b"host", b"census.example.org"),
        (b"authorization", f"Bearer {token}".encode()),
        *headers,
    ]
    await app(scope, receive, send)
    return statuses[0]


def test_a_server_with_a_trusted_proxy_rejects_other_peers_with_403(tmp_path: Path) -> None:
    proxies = "10.0.0.7, 10.1.0.0/24, fd00::/64"
    with TokenServer(tmp_path, trusted_proxy=proxies) as server:
        app = create_app(server.service, server.settings)
        for peer, status in (
            ("10.0.0.7", 200),
            ("10.1.0.200", 200),
            ("::ffff:10.1.0.1", 200),
            ("fd00::1", 200),
            ("127.0.0.1", 200),
            ("::1", 200),
            ("10.0.0.8", 403),
            ("192.0.2.1", 403),
            ("fd01::1", 403),
            ("", 403),
            ("unix", 403),
        ):
            for more in ((), ((b"x-forwarded-for", b"10.0.0.7"),), ((b"forwarded", b"for=::1"),)):
                result = asyncio.run(answered(app, peer, "/me", server.administrator, *more))
                assert result == status, peer
            assert asyncio.run(answered(app, peer, "/healthz", "x")) == 200


def test_the_x_forwarded_for_header_does_not_change_the_peer(tmp_path: Path) -> None:
    # By default uvicorn trusts X-Forwarded-For from this machine.
    with TokenServer(tmp_path, trusted_proxy="10.0.0.7") as server:
        answer = server.get("/me", server.administrator, **{"X-Forwarded-For": "192.0.2.1"})
        assert answer.status_code == 200


def test_a_local_server_rejects_another_host_name_with_421(own: TokenServer) -> None:
    answer = own.get("/me", own.administrator, Host="census.example.org")
    assert answer.status_code == 421
    eventually(lambda: own.status(own.administrator) == 200)
