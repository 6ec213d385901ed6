"""The HTTP servers, of an embedded ledger and of one on Kafka, under many connections.

BENCH_BEFORE=DIRECTORY, a checkout of another version, measures that one too, in turns.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks import requests
from benchmarks.measure import Row, Scale, percentile
from benchmarks.processes import command, free_port, processor_seconds, worker_settings
from streams.kafka.deployment import Deployment, TopicNames
from streams.testing import LocalBroker

_CONNECTIONS = 64
_DATASETS = 50
_ROUNDS = 3
_WARM_UP = 500
_MICROSECONDS = 1e6
_HEAD = "POST {} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\n"
_OWNER, _ANALYST = "owner", "ana"


class _Tokens(NamedTuple):
    """The tokens of a server that authenticates: of the datasets' owner, and of one analyst."""

    owner: str
    analyst: str


class _Connection:
    """One persistent connection: an HTTP library would take longer than the server."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str | None
    ) -> None:
        self._reader, self._writer = reader, writer
        self._port = writer.get_extra_info("peername")[1]
        self._token = "" if token is None else f"Authorization: Bearer {token}\r\n"

    async def post(self, path: str, body: bytes) -> None:
        head = _HEAD.format(path, self._port) + self._token
        head += f"Content-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        status, *fields = (await self._reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        named = dict(field.split(b": ", 1) for field in fields if field)
        answer = await self._reader.readexactly(int(named[b"content-length"]))
        if not status.startswith(b"http/1.1 200"):
            raise RuntimeError(f"{status.decode()}: {answer.decode()}")

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


class _Speed(NamedTuple):
    """The speed of a server.

    Attributes:
        rate: requests a second.
        busy: microseconds of processor time a request, of all the server's threads.
        took: the seconds of each request.
    """

    rate: float
    busy: float
    took: list[float]


@contextlib.asynccontextmanager
async def _connected(port: int, token: str | None = None) -> AsyncIterator[_Connection]:
    connection = _Connection(*await asyncio.open_connection("127.0.0.1", port), token)
    try:
        yield connection
    finally:
        await connection.close()


async def _ask(port: int, count: int, tokens: _Tokens | None = None) -> list[float]:
    """Send requests on all connections at once, and return the seconds of each."""
    took: list[float] = []
    names = requests.names(_DATASETS)

    async def ask(number: int) -> None:
        token, analyst = (None, None) if tokens is None else (tokens.analyst, _ANALYST)
        async with _connected(port, token) as connection:
            for i in range(number, count, _CONNECTIONS):
                name = names[i % _DATASETS]
                body = requests.request(name, requests.now(), i, analyst=analyst)
                started = time.perf_counter()
                await connection.post("/requests", body)
                took.append(time.perf_counter() - started)

    await asyncio.gather(*[ask(number) for number in range(_CONNECTIONS)])
    return took


async def _load(port: int, process: int, count: int, tokens: _Tokens | None = None) -> _Speed:
    """Open the datasets, warm the server up, and measure it."""
    async with _connected(port, None if tokens is None else tokens.owner) as connection:
        for name in requests.names(_DATASETS):
            await connection.post("/datasets", requests.opening(name, requests.now()))
    await _ask(port, _WARM_UP, tokens)
    busy, started = processor_seconds(process), time.perf_counter()
    took = await _ask(port, count, tokens)
    seconds = time.perf_counter() - started
    busy = processor_seconds(process) - busy
    return _Speed(count / seconds, busy / count * _MICROSECONDS, took)


def _embedded(checkout: str, count: int, *, authenticates: bool = False) -> _Speed:
    port = free_port()
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR", ".")) as directory:
        settings = {
            "ACCOUNTANT_URL": f"sqlite:///{Path(directory).absolute() / 'ledger.db'}",
            "ACCOUNTANT_PORT": str(port),
        }
        tokens = None
        if authenticates:
            file = Path(directory).absolute() / "tokens.json"
            tokens = _Tokens(*[_token(checkout, file, name) for name in (_OWNER, _ANALYST)])
            settings |= {
                "ACCOUNTANT_TOKENS": str(file),
                "ACCOUNTANT_ADMINISTRATORS": _OWNER,
                "ACCOUNTANT_LIMIT_PER_NAME": "0",
            }
        with command("serve", settings, port=port, cwd=checkout) as process:
            return asyncio.run(_load(port, process, count, tokens))


def _token(checkout: str, file: Path, name: str) -> str:
    """Create a token in a file, and return it."""
    made = subprocess.run(
        [sys.executable, "-m", "streams.cli", "token", "create", "--name", name, "--json"],
        env={**os.environ, "ACCOUNTANT_TOKENS": str(file)},
        cwd=checkout,
        capture_output=True,
        check=True,
    )
    return str(json.loads(made.stdout)["token"])


class _Gateways:
    """Gateways on one broker. Each turn has topics and a worker of its own."""

    def __init__(self, broker: LocalBroker) -> None:
        self._broker = broker
        self._turn = 0

    def measure(self, checkout: str, count: int) -> _Speed:
        self._turn += 1
        prefix = f"http{self._turn}."
        deployment = Deployment(
            bootstrap=self._broker.bootstrap,
            application=f"{prefix}bench",
            topics=TopicNames(prefix),
            partitions=4,
        )
        ports = free_port(), free_port()
        worker, gateway = [worker_settings(deployment, port, read_side=False) for port in ports]
        # A version makes its own topics: an older one demands other settings of them.
        subprocess.run(
            [sys.executable, "-m", "streams.cli", "topics", "create"],
            env={**os.environ, **worker},
            cwd=checkout,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        with (
            command("worker", worker, port=ports[0], cwd=checkout),
            command("gateway", gateway, port=ports[1], cwd=checkout) as process,
        ):
            return asyncio.run(_load(ports[1], process, count))


def rows(scale: Scale) -> Iterator[Row]:
    """Yield rate, tail and processor time of requests over HTTP."""
    before = os.environ.get("BENCH_BEFORE")
    checkouts = [".", *([before] if before else [])]
    note = f"{_CONNECTIONS} at a time, load on the same cores, least of {_ROUNDS} turns"
    count = scale.of(10_000)
    embedded: dict[str, list[_Speed]] = {each: [] for each in checkouts}
    for each in checkouts * _ROUNDS:
        embedded[each].append(_embedded(each, count))
    best = max(embedded["."], key=lambda speed: speed.rate)
    yield Row(name="HTTP server, embedded", value=best.rate, unit="requests/s", note=note)
    yield Row(name="HTTP server, p99", value=percentile(best.took, 0.99) * 1e3, unit="ms")
    yield from _busy("HTTP server, embedded", embedded, note)
    authenticated: dict[str, list[_Speed]] = {each: [] for each in checkouts}
    for each in checkouts * _ROUNDS:
        authenticated[each].append(_embedded(each, count, authenticates=True))
    yield from _busy("HTTP server, authenticated", authenticated, "a static token")
    gateway: dict[str, list[_Speed]] = {each: [] for each in checkouts}
    with LocalBroker() as broker:
        gateways = _Gateways(broker)
        for each in checkouts * _ROUNDS:
            gateway[each].append(gateways.measure(each, count))
    yield from _busy("gateway", gateway, note)


def _busy(what: str, measured: dict[str, list[_Speed]], note: str) -> Iterator[Row]:
    least = {each: min(speed.busy for speed in speeds) for each, speeds in measured.items()}
    yield Row(name=f"{what}, processor time a request", value=least["."], unit="us", note=note)
    for each, busy in least.items():
        if each != ".":
            yield Row(name=f"{what}, processor time / before", value=least["."] / busy, unit="")
