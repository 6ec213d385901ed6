"""`accountant ready`: a server's readiness, with its reasons for those who may read them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from streams.auth import token_file
from streams.clock import SystemClock
from streams.errors import Unavailable
from streams.metrics.live_ledgers import LiveLedgers
from streams.settings import Settings
from streams.worker.http_server import WorkerHttpServer
from streams.worker.status import Status, broker_away
from tests.every_case import every_case
from tests.observability.programs import free_port
from tests.streams.auth.certificates import Files, certificate
from tests.streams.cli.authenticated_server import authenticated_server
from tests.streams.cli.conftest import Command, Done

HIDDEN = "its reasons are not shown to you"
ROLES = {"administrators": "root", "metrics_readers": "sre"}


@contextlib.asynccontextmanager
async def worker(status: Status, **settings: Any) -> AsyncIterator[tuple[str, str]]:
    """A worker's own server; yields its address, and that of its port for probes."""
    port, probes = free_port(), free_port()
    server = WorkerHttpServer(
        Settings(metrics_port=port, probe_port=probes, **settings),
        source=LiveLedgers(),
        readiness=status.readiness,
    )
    await server.start()
    try:
        scheme = "https" if "tls_key" in settings else "http"
        yield f"{scheme}://127.0.0.1:{port}", f"http://127.0.0.1:{probes}"
    finally:
        await server.stop()


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return certificate(tmp_path)


@pytest.fixture
def secured(tmp_path: Path, files: Files) -> tuple[dict[str, Any], dict[str, str]]:
    """The settings of a server with tokens and TLS, and a token by name."""
    tokens, now = tmp_path / "tokens.json", SystemClock().now()
    known = {
        name: token_file.create(tokens, name, now=now).token for name in ("root", "sre", "ana")
    }
    tls = {"tls_certificate": files.certificate, "tls_key": files.key}
    return {"tokens": tokens, **ROLES, **tls}, known


async def test_reasons_are_for_administrators_and_metrics_readers(
    accountant: Command, secured: tuple[dict[str, Any], dict[str, str]], files: Files
) -> None:
    settings, tokens = secured
    status = Status()
    status.halted(3, ValueError("the row of dataset census differs"))
    async with worker(status, **settings) as (url, probes):

        async def ready(url: str, token: str | None, *more: str) -> Done:
            shown = {} if token is None else {"ACCOUNTANT_TOKEN": token}
            options = {"SSL_CERT_FILE": str(files.certificate), **shown}
            return await asyncio.to_thread(accountant, "ready", "--url", url, *more, **options)

        for name in ("root", "sre"):
            done = await ready(url, tokens[name])
            assert (done.code, done.err) == (1, ""), name
            expected = "reason: partition 3 halted: the row of dataset census differs\n"
            assert done.out == f"{url} is not ready\n{expected}"
        shown = (await ready(url, tokens["sre"], "--json")).json
        assert (shown["url"], shown["ready"], shown["notes"]) == (url, False, [])
        assert shown["reasons"] == ["partition 3 halted: the row of dataset census differs"]
        for where, token in ((url, "ana"), (url, None), (probes, "root"), (probes, None)):
            done = await ready(where, token and tokens[token])
            assert done.code == 1
            assert done.out.startswith(f"{where} is not ready\n{HIDDEN}")
            assert "census" not in done.out + done.err
        assert (await ready(url, None, "--json")).json["reasons"] is None

        status.revoked(3)
        for where, token in ((url, tokens["root"]), (url, None), (probes, None)):
            done = await ready(where, token)
            assert (done.code, done.out) == (0, f"{where} is ready\n")


async def test_a_lost_token_file_is_a_note_of_a_worker(
    accountant: Command, secured: tuple[dict[str, Any], dict[str, str]], files: Files
) -> None:
    settings, tokens = secured
    async with worker(Status(), **settings) as (url, probes):
        settings["tokens"].unlink()
        for where in (url, probes):
            options = {
                "SSL_CERT_FILE": str(files.certificate),
                "ACCOUNTANT_TOKEN": tokens["root"],
            }
            done = await asyncio.to_thread(accountant, "ready", "--url", where, **options)
            assert done.code == 0
            assert "note: every token of the file of tokens is rejected" in done.out
            assert "tokens_unreadable" in done.out, "the next step"


def test_a_lost_token_file_is_a_reason_of_a_server_that_everybody_may_read(
    accountant: Command,
) -> None:
    with authenticated_server(accountant) as server:
        assert server.done("ana", "ready").out == f"{server.url} is ready\n", "by the file"
        tokens = (accountant.directory / "tokens.json").rename(accountant.directory / "away")
        done = accountant("ready", "--url", server.url)
        assert done.code == 1
        assert done.out.startswith(f"{server.url} is not ready\nreason: every token of the file")
        tokens.rename(accountant.directory / "tokens.json")


class _Listener(BaseHTTPRequestHandler):
    """Answers as a port for probes, and records the headers of each request."""

    answer = b'{"ready": true}'
    status = 200
    requests: list[dict[str, str]]

    def do_GET(self) -> None:
        self.requests.append(dict(self.headers))
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def listening(
    host: str, answer: bytes = _Listener.answer, status: int = 200
) -> Iterator[tuple[str, list[dict[str, str]]]]:
    requests: list[dict[str, str]] = []
    fields = {"answer": answer, "status": status, "requests": requests}
    server = ThreadingHTTPServer((host, 0), type("Listener", (_Listener,), fields))
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://{host}:{server.server_port}", requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_no_token_crosses_a_network_unencrypted(accountant: Command, tmp_path: Path) -> None:
    secret = tmp_path / "ops.token"
    secret.touch(0o600)
    secret.write_text("acct_" + "s" * 40)
    # By its address this is another machine: only 127.0.0.1 is this one.
    with listening("127.0.0.2") as (url, requests):
        options = {"ACCOUNTANT_TOKEN_FILE": str(secret), "NO_PROXY": "127.0.0.2"}
        done = accountant("ready", "--url", url, **options)
        assert (done.code, done.out) == (0, f"{url} is ready\n")
        unprotected = accountant("dataset", "list", "--url", url, **options)
        assert unprotected.code == 4
        assert "a token is not sent over http to another machine" in unprotected.err
    assert len(requests) == 1
    assert "authorization" not in {name.lower() for name in requests[0]}


@every_case(
    ("answer", "status"),
    [
        (b"<html>not found</html>", 404),
        (b'{"ready": true}', 503),
        (b'{"ready": false, "reasons": []}', 200),
        (b'{"ready": true, "reasons": "no list"}', 200),
        (b'{"ready": true, "notes": ["' + b"x" * (1 << 20) + b'"]}', 200),
    ],
)
def test_another_kind_of_server_is_never_ready(
    accountant: Command, answer: bytes, status: int
) -> None:
    with listening("127.0.0.1", answer, status) as (url, _):
        done = accountant("ready", "--url", url)
    assert (done.code, done.out) == (4, "")
    assert "Check that this is a gateway's address" in done.err


def test_no_answer_is_exit_code_3_and_a_ledger_is_wrong_usage(
    accountant: Command, files: Files
) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    silent = accountant("ready", "--url", url)
    assert (silent.code, silent.out) == (3, "")
    assert f"{url} does not answer" in silent.err
    for ledger in ("sqlite:///accountant.db", "kafka://127.0.0.1:9092"):
        done = accountant("ready", "--url", ledger)
        assert (done.code, done.out) == (2, "")
        assert "--url http://HOST:PORT" in done.err


def test_each_reason_of_a_worker_has_a_next_step() -> None:
    status = Status()
    status.assigned(0)
    status.dropped(1, Unavailable("the disk is full"))
    status.trouble("broker", broker_away("the broker", "timed out"))
    reasons = status.readiness().reasons
    steps = ("Check it and the network", "Wait: it is decided after that", "if this stays, restart")
    assert len(reasons) == len(steps)
    for reason, step in zip(reasons, steps, strict=True):
        assert step in reason
