"""A server's connections: how many it keeps, and how long it waits for a request."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import resource
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from litestar import Litestar, Request, get, post
from litestar.response import Stream

from streams.server.connection_limits import REQUEST_S, BoundedServer, ConnectionRoom, room
from tests.patience import PATIENCE_S
from tests.streams.auth.certificates import certificate
from tests.streams.waiting import eventually

STARTS = ("streams.cli",)

pytestmark = pytest.mark.slow  # they wait for a bound on waiting to be reached

HEAD = b"%s HTTP/1.1\r\nHost: here\r\n"
REQUEST = HEAD % b"GET /at-once" + b"\r\n"
TEST_REQUEST_S = 1.0  # a connection is looked at each second, so it may be nearly twice that
LONG_S = 600.0  # a time limit that no test reaches


@get("/at-once")
async def at_once() -> str:
    return "done"


@get("/slow")
async def slow() -> str:
    await asyncio.sleep(4 * TEST_REQUEST_S)
    return "done"


@get("/events")
async def events() -> Stream:
    async def beats() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b"beat\n"
            await asyncio.sleep(TEST_REQUEST_S)

    return Stream(beats())


LARGE = 20_000_000


@get("/large")
async def large() -> bytes:
    return b"." * LARGE


@post("/body", status_code=200)
async def body(request: Request[Any, Any, Any]) -> str:
    return f"{len(await request.body())} bytes"


@post("/slowly-read", status_code=200)
async def slowly_read(request: Request[Any, Any, Any]) -> str:
    """Read the first piece of a body, and the rest only after the time limit of a request."""
    message: Any = await request.receive()
    size = len(message["body"])
    await asyncio.sleep(4 * TEST_REQUEST_S)
    while message["type"] == "http.request" and message["more_body"]:
        message = await request.receive()
        size += len(message.get("body", b""))
    return f"{size} bytes"


@contextlib.asynccontextmanager
async def served(**bounds: Any) -> AsyncIterator[int]:
    """Serve on a free port; the log has no error in the end."""
    app = Litestar([at_once, slow, events, large, body, slowly_read], openapi_config=None)
    bounds = {"request_s": TEST_REQUEST_S, **bounds}
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = BoundedServer(app, timeout_graceful_shutdown=1, **bounds)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        while not server.started:  # noqa: ASYNC110 (uvicorn has no event for it)
            await asyncio.sleep(0.01)
        yield listening.getsockname()[1]
        server.should_exit = True
        await serving


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.asynccontextmanager
async def connected(port: int, source: str = "127.0.0.1") -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
    try:
        yield reader, writer
    finally:
        writer.close()


async def ended(reader: asyncio.StreamReader) -> float:
    """Return the seconds until the server ended a connection without another byte."""
    started = time.monotonic()
    async with asyncio.timeout(PATIENCE_S):
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
    return time.monotonic() - started


async def answered(connection: Connection, request: bytes = REQUEST) -> bytes:
    """Return the body that answers a request."""
    reader, writer = connection
    writer.write(request)
    async with asyncio.timeout(PATIENCE_S):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return await reader.readexactly(length)


async def assert_another_is_answered(port: int) -> None:
    """Connect until there is room for one more, and ask."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            async with connected(port) as connection:
                with contextlib.suppress(asyncio.IncompleteReadError, ConnectionResetError):
                    assert await answered(connection) == b"done"
                    return
            await asyncio.sleep(0.1)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /at-",
        HEAD % b"GET /at-once" + b"X-More: ",
        HEAD % b"POST /body" + b"Content-Length: 9\r\n\r\nhalf",
        # Its answer needs no body, but the connection cannot be used before it has come.
        HEAD % b"POST /nowhere" + b"Content-Length: 9\r\n\r\nhalf",
    ],
    ids=["silent", "half a line", "half a head", "half a body", "half a body nobody reads"],
)
async def test_a_connection_without_a_complete_request_is_ended(
    sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with served() as port, connected(port) as (reader, writer):
        writer.write(sent)
        if b"nowhere" in sent:
            assert b" 404 " in await reader.readuntil(b"\r\n")
            async with asyncio.timeout(PATIENCE_S):
                await reader.read()
        else:
            assert await ended(reader) >= TEST_REQUEST_S
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_connection_that_stops_in_its_second_request_is_ended() -> None:
    async with served() as port, connected(port) as connection:
        assert await answered(connection) == b"done"
        connection[1].write(b"GET /at-")
        await ended(connection[0])


async def test_a_connection_with_regular_requests_stays_open() -> None:
    async with served() as port, connected(port) as connection:
        until = time.monotonic() + 5 * TEST_REQUEST_S
        while time.monotonic() < until:
            assert await answered(connection) == b"done"
            await asyncio.sleep(TEST_REQUEST_S / 4)


async def test_a_response_may_take_longer_than_the_request_time_limit() -> None:
    async with served() as port, connected(port) as connection, connected(port) as stream:
        stream[1].write(HEAD % b"GET /events" + b"\r\n")
        assert await answered(connection, HEAD % b"GET /slow" + b"\r\n") == b"done"
        assert await answered(connection) == b"done"
        async with asyncio.timeout(PATIENCE_S):
            assert (await stream[0].readuntil(b"0\r\n\r\n")).count(b"beat") == 5


async def test_a_body_sent_in_pieces_within_the_time_limit_is_answered() -> None:
    async with served(request_s=LONG_S) as port, connected(port) as connection:
        connection[1].write(HEAD % b"POST /body" + b"Content-Length: 9\r\n\r\nhalf")
        await asyncio.sleep(0.2)
        assert await answered(connection, b"again") == b"9 bytes"


async def test_a_client_whose_body_the_server_reads_slowly_keeps_its_connection() -> None:
    async with served() as port, connected(port) as connection:
        head = HEAD % b"POST /slowly-read" + b"Content-Length: 2000000\r\n\r\n"
        assert await answered(connection, head + b"x" * 2_000_000) == b"2000000 bytes"


async def test_connections_above_the_limit_are_ended_and_the_others_stay() -> None:
    proxies = [ipaddress.ip_network("127.0.0.1")]  # which has no share, so that all count alike
    bounds = {"max_connections": 3, "proxies": proxies, "request_s": LONG_S}
    async with served(**bounds) as port, contextlib.AsyncExitStack() as opened:
        open_connections = [await opened.enter_async_context(connected(port)) for _ in range(3)]
        for connection in open_connections:
            assert await answered(connection) == b"done"
        for _ in range(5):
            async with connected(port) as (reader, _writer):
                await ended(reader)
        for connection in open_connections:
            assert await answered(connection) == b"done"
        open_connections[0][1].close()
        await open_connections[0][1].wait_closed()
        await assert_another_is_answered(port)


async def test_half_sent_requests_of_one_peer_do_not_block_others() -> None:
    async with (
        served(max_connections=40, request_s=LONG_S) as port,
        contextlib.AsyncExitStack() as opened,
    ):
        # One that is being answered, from the same address as what follows.
        stream = await opened.enter_async_context(connected(port))
        stream[1].write(HEAD % b"GET /events" + b"\r\n")
        halves = []
        for _ in range(150):
            half = await opened.enter_async_context(connected(port))
            half[1].write(b"GET /at-")
            halves.append(half)
        async with connected(port) as honest:
            assert await answered(honest) == b"done"
            assert await answered(honest) == b"done"
        async with asyncio.timeout(PATIENCE_S):
            assert (await stream[0].readuntil(b"0\r\n\r\n")).count(b"beat") == 5
        ends = [reader.at_eof() or reader.exception() is not None for reader, _ in halves]
        assert ends[0]
        assert 0 < ends.count(False) <= 30  # the newest of them


async def test_idle_connections_end_in_favour_of_new_requests() -> None:
    async with (
        served(max_connections=40, request_s=LONG_S) as port,
        contextlib.AsyncExitStack() as opened,
    ):
        for number in range(30):  # three quarters, of six addresses with all of their share
            source = f"127.0.0.{1 + number % 6}"
            idle = await opened.enter_async_context(connected(port, source))
            assert await answered(idle) == b"done"
        news = [await opened.enter_async_context(connected(port)) for _ in range(4)]
        assert await asyncio.gather(*map(answered, news)) == [b"done"] * 4


async def test_an_address_with_many_idle_connections_is_answered_on_a_new_one() -> None:
    async with (
        served(max_connections=40, request_s=LONG_S) as port,
        contextlib.AsyncExitStack() as opened,
    ):
        for _ in range(45):
            connection = await opened.enter_async_context(connected(port))
            assert await answered(connection) == b"done"


async def test_a_client_that_ignores_tls_close_does_not_stop_the_server(tmp_path: Path) -> None:
    files = certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(files.certificate, files.key)
    trusting = ssl._create_unverified_context()

    async def ask(port: int) -> Connection:
        connection = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
        assert await answered(connection) == b"done"
        return connection

    async with served(tls=tls) as port:
        _, silent = await ask(port)
        cast("asyncio.Transport", silent.transport).pause_reading()
        await asyncio.sleep(5 * TEST_REQUEST_S)  # closed by two timers, and looked at again
        _, other = await ask(port)
        other.close()
        silent.transport.abort()


async def test_keep_alive_names_the_idle_time() -> None:
    async with served(request_s=10.0) as port, connected(port) as (reader, writer):
        writer.write(REQUEST)
        assert b"keep-alive: timeout=9" in (await reader.readuntil(b"\r\n\r\n")).lower()


@pytest.mark.parametrize("asked", [1, 3])
async def test_a_client_that_reads_no_response_loses_its_connection(asked: int) -> None:
    async with served(max_connections=1, unread_s=TEST_REQUEST_S) as port:
        silent = socket.create_connection(("127.0.0.1", port))
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        silent.setblocking(False)
        loop = asyncio.get_running_loop()
        sending = asyncio.create_task(
            loop.sock_sendall(silent, (HEAD % b"GET /large" + b"\r\n") * asked)
        )
        await asyncio.sleep(TEST_REQUEST_S / 2)
        try:
            await assert_another_is_answered(port)
        finally:
            sending.cancel()
            await asyncio.wait([sending])
            silent.close()


async def test_a_client_that_reads_slowly_gets_the_whole_response() -> None:
    async with served(unread_s=2 * TEST_REQUEST_S) as port, connected(port) as (reader, writer):
        started = time.monotonic()
        writer.write(HEAD % b"GET /large" + b"\r\n")
        await reader.readuntil(b"\r\n\r\n")
        remaining = LARGE
        while remaining:
            remaining -= len(await reader.readexactly(min(remaining, LARGE // 50)))
            await asyncio.sleep(TEST_REQUEST_S / 10)
        assert time.monotonic() - started > 4 * TEST_REQUEST_S


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (100, ConnectionRoom(62, 2)),
        (1024, ConnectionRoom(640, 60)),
        (1 << 20, ConnectionRoom(1280, 124)),
        (resource.RLIM_INFINITY, ConnectionRoom(1280, 124)),
    ],
)
def test_connections_never_use_all_file_descriptors(files: int, found: ConnectionRoom) -> None:
    assert room(files) == found


@contextlib.contextmanager
def _a_ledger_with_few_files(directory: Path) -> Iterator[str]:
    """Run `accountant serve` in a process that may have 256 files; its log is beside the ledger."""
    command = f'ulimit -n 256; exec "{sys.executable}" -m streams.cli serve --port 0'
    environment = {**os.environ, "ACCOUNTANT_URL": f"sqlite:///{directory}/ledger.db"}
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            ["sh", "-c", command], stdout=log, stderr=subprocess.STDOUT, env=environment
        )
    try:
        until = time.monotonic() + PATIENCE_S
        while "listening at " not in (said := (directory / "log").read_text()):
            assert time.monotonic() < until, said
            time.sleep(0.1)
        yield said.partition("listening at ")[2].split()[0]
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def _is_healthy(client: httpx.Client) -> bool:
    """Ask, and once more where the idle connection gave way to new ones of the same address."""
    try:
        return client.get("/healthz").status_code == 200
    except httpx.TransportError:
        return client.get("/healthz").status_code == 200


def test_400_silent_connections_do_not_block_the_ledger_for_long(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(_a_ledger_with_few_files(tmp_path))
        known = stack.enter_context(httpx.Client(base_url=url, trust_env=False, timeout=20))
        assert known.get("/healthz").status_code == 200
        address = httpx.URL(url)
        for number in range(400):
            silent = stack.enter_context(socket.socket())
            silent.setblocking(False)  # else each waits a second where the queue is full
            silent.connect_ex((address.host, address.port))
            if number % 10 == 0:
                assert _is_healthy(known)
        until = time.monotonic() + 6 * REQUEST_S
        while True:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{url}/readyz", trust_env=False, timeout=5).status_code == 200:
                    break
            assert time.monotonic() < until
            time.sleep(0.5)
        eventually(lambda: "connections_over_limit" in (tmp_path / "log").read_text())
    log = (tmp_path / "log").read_text()
    assert "out of system resource" not in log
    assert len(log) < 10_000
