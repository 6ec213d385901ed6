"""Clients of GET /events that leave, however they do, and more of them than there is room for."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import resource
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from accountant.records import decode_decision, encode
from streams.embedded.service import EmbeddedService
from streams.gateway.events import MAX_STREAMS
from streams.gateway.events.event import EVERYTHING, LogEvent
from streams.gateway.events.position import Position
from streams.kafka.service.kafka_service import KafkaService
from streams.log.appended import Appended
from streams.server.app import create_app
from streams.server.gateway_server import GatewayServer, run_gateway
from streams.settings import Settings
from tests.patience import PATIENCE_S
from tests.streams.bodies import decision
from tests.streams.clock import TestClock
from tests.streams.server.scope import get_scope
from tests.streams.waiting import eventually

_GET = b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: what is closed is reset

AnyService = EmbeddedService | KafkaService


@pytest.fixture
def settings() -> Settings:
    return Settings(port=0)


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
async def service(
    request: pytest.FixtureRequest, file: Path, clock: TestClock, settings: Settings
) -> AsyncIterator[AnyService]:
    """Either service, of a ledger of one partition whose only decision is its genesis."""
    async with contextlib.AsyncExitStack() as stack:
        made: AnyService
        if request.param == "embedded":
            made = EmbeddedService.open(file, settings, clock=clock)
        else:
            from tests.faults.ledger import Ledger

            bootstrap = request.getfixturevalue("broker").bootstrap
            application = request.getfixturevalue("application")
            ledger = Ledger(bootstrap, application, partitions=1)
            await stack.enter_async_context(ledger)
            made = await KafkaService.start(ledger.deployment)
        yield made
        await made.close()


@contextlib.asynccontextmanager
async def served(service: AnyService, settings: Settings) -> AsyncIterator[int]:
    """Serve in this loop; yields the port."""
    ports: asyncio.Queue[int] = asyncio.Queue()
    servers: list[GatewayServer] = []

    def listening(url: str) -> None:
        ports.put_nowait(int(url.rpartition(":")[2]))

    serving = asyncio.create_task(
        run_gateway(service, settings, listening=listening, made=servers.append)
    )
    async with asyncio.timeout(PATIENCE_S):
        port = await ports.get()
    try:
        yield port
    finally:
        servers[0].stop()
        await serving


def connect(port: int, path: bytes = b"/events") -> socket.socket:
    """Return a connection that has asked for the events."""
    made = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    made.sendall(_GET % path)
    return made


def disconnect(connected: socket.socket, *, reset: bool) -> None:
    if reset:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    connected.close()


def read_until(connected: socket.socket, wanted: bytes) -> bytes:
    received = b""
    while wanted not in received:
        more = connected.recv(65_536)
        assert more, f"closed after {received!r}"
        received += more
    return received


async def broadcast_has_no_reader(service: AnyService) -> None:
    """Return once the broadcast has no reader."""

    def has_no_reader() -> bool:
        return not service._announced.appended.has_readers

    await asyncio.to_thread(eventually, has_no_reader)


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("path", [b"/events", b"/events?crossed=true"])
async def test_a_client_that_reads_and_disconnects_leaves_no_reader(
    service: AnyService, settings: Settings, path: bytes, reset: bool
) -> None:
    def read_and_leave() -> None:
        for _ in range(30):
            client = connect(port, path)
            read_until(client, b"from now on")
            disconnect(client, reset=reset)

    async with served(service, settings) as port:
        await asyncio.to_thread(read_and_leave)
        await broadcast_has_no_reader(service)


@pytest.mark.parametrize("reset", [False, True])
async def test_a_client_that_disconnects_before_its_stream_leaves_no_reader(
    service: AnyService, settings: Settings, reset: bool
) -> None:
    async with served(service, settings) as port:
        for _ in range(30):
            # In this loop's own thread: the server hears of the request and of its end at once.
            disconnect(connect(port), reset=reset)
        assert await answered(port)
        await broadcast_has_no_reader(service)


@pytest.mark.parametrize("blocked", ["http.response.start", "http.response.body", "nothing"])
async def test_a_stream_cancelled_by_the_server_leaves_no_reader(
    service: AnyService, settings: Settings, blocked: str
) -> None:
    began = asyncio.Event()

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        if message["type"] == blocked or message.get("body"):
            began.set()
        if message["type"] == blocked:
            await asyncio.Event().wait()

    app = create_app(service, settings)
    serving = asyncio.create_task(app(get_scope("/events"), receive, send))
    async with asyncio.timeout(PATIENCE_S):
        await began.wait()
    assert service._announced.appended.has_readers
    await asyncio.sleep(0)  # where nothing is blocked, the stream waits for its first event
    serving.cancel()
    await asyncio.wait([serving], timeout=PATIENCE_S)
    assert serving.cancelled()
    assert not service._announced.appended.has_readers


async def answered(port: int) -> bool:
    """Tell whether the server is past what came before."""
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as client:
        return (await client.get(f"http://127.0.0.1:{port}/healthz")).status_code == 200


@pytest.fixture
def clients() -> Iterator[list[socket.socket]]:
    """A list whose connections are closed at the end; both ends of each are in this process."""
    made: list[socket.socket] = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = soft if soft == resource.RLIM_INFINITY else max(soft, 2 * MAX_STREAMS + 500)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    yield made
    for each in made:
        each.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_streams_above_the_limit_are_refused_until_one_ends(
    service: AnyService, settings: Settings, clients: list[socket.socket]
) -> None:
    def fill() -> None:
        for _ in range(MAX_STREAMS):
            clients.append(connect(port))
            read_until(clients[-1], b"from now on")

    async with served(service, settings) as port:
        await asyncio.to_thread(fill)
        async with (
            httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as client,
            client.stream("GET", f"http://127.0.0.1:{port}/events") as refused,
        ):
            assert refused.status_code == 503
            await refused.aread()
        assert int(refused.headers["retry-after"]) > 0
        result: dict[str, Any] = refused.json()
        assert result["error"] == "unavailable"
        assert result["message"] == (
            f"this server has {MAX_STREAMS} open streams of events, its limit: "
            "close one, or connect again later"
        )
        disconnect(clients.pop(), reset=True)
        await asyncio.to_thread(eventually, lambda: b" 200 OK" in begin(port, clients))


def begin(port: int, clients: list[socket.socket]) -> bytes:
    """Ask for the events once more; return the head of the answer."""
    clients.append(connect(port))
    return read_until(clients[-1], b"\r\n\r\n")


async def test_waiting_decisions_are_sent_in_order_in_few_pieces(
    service: AnyService, settings: Settings, clients: list[socket.socket]
) -> None:
    def open_streams() -> None:
        for _ in range(20):
            clients.append(connect(port))
            read_until(clients[-1], b"from now on\n\n\r\n")

    def pieces(client: socket.socket) -> list[list[int]]:
        """Return the numbers of the decisions in each chunk of the answer."""
        rest, found = read_until(client, b'"partition_sequence":250,'), []
        rest += read_until(client, b"\r\n") if not rest.endswith(b"\r\n") else b""
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            chunk, rest = rest[: int(size, 16)], rest[int(size, 16) + 2 :]
            data = [line[6:] for line in chunk.splitlines() if line.startswith(b"data: ")]
            if data:  # else the chunk tells the position alone
                found.append([each.partition_sequence for each in map(decode_decision, data)])
        return found

    async with served(service, settings) as port:
        await asyncio.to_thread(open_streams)
        values = [encode(decision(number)) for number in range(1, 251)]
        service._announced.appended.send([Appended(0, 1, values)])
        for client in clients:
            found = await asyncio.to_thread(pieces, client)
            assert list(itertools.chain(*found)) == [*range(1, 251)]
            assert len(found) <= 3


def test_a_decision_is_encoded_once_for_all_streams() -> None:
    log_event = LogEvent(0, encode(decision(7)), Position((6,), 0))
    sent = log_event.encoded(EVERYTHING)
    assert log_event.encoded(EVERYTHING) is sent
    assert b'"partition_sequence":7,' in sent
