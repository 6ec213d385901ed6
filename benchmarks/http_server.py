"""The HTTP server of an embedded ledger under many concurrent connections."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from benchmarks import requests
from benchmarks.measure import Row, Scale, percentile
from benchmarks.processes import command, free_port

_CONNECTIONS = 16
_DATASETS = 50
_HEAD = "POST {} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\n"


class _Connection:
    """One persistent connection: an HTTP library would take longer than the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._port = writer.get_extra_info("peername")[1]

    async def post(self, path: str, body: bytes) -> None:
        head = _HEAD.format(path, self._port) + f"Content-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        status, *fields = (await self._reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        named = dict(field.split(b": ", 1) for field in fields if field)
        answer = await self._reader.readexactly(int(named[b"content-length"]))
        if not status.startswith(b"http/1.1 200"):
            raise RuntimeError(f"{status.decode()}: {answer.decode()}")

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


@contextlib.asynccontextmanager
async def _connected(port: int) -> AsyncIterator[_Connection]:
    connection = _Connection(*await asyncio.open_connection("127.0.0.1", port))
    try:
        yield connection
    finally:
        await connection.close()


async def _load(port: int, count: int) -> tuple[float, list[float]]:
    """Return requests a second, and the seconds of each."""
    took: list[float] = []
    names = requests.names(_DATASETS)

    async def ask(number: int) -> None:
        async with _connected(port) as connection:
            for i in range(number, count, _CONNECTIONS):
                body = requests.request(names[i % _DATASETS], requests.now(), i)
                started = time.perf_counter()
                await connection.post("/requests", body)
                took.append(time.perf_counter() - started)

    async with _connected(port) as connection:
        for name in names:
            await connection.post("/datasets", requests.opening(name, requests.now()))
    started = time.perf_counter()
    await asyncio.gather(*[ask(number) for number in range(_CONNECTIONS)])
    return count / (time.perf_counter() - started), took


def rows(scale: Scale) -> Iterator[Row]:
    """Yield rate and tail of requests over HTTP."""
    count = scale.of(20_000)
    port = free_port()
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR", ".")) as directory:
        settings = {
            "ACCOUNTANT_URL": f"sqlite:///{Path(directory).absolute() / 'ledger.db'}",
            "ACCOUNTANT_PORT": str(port),
        }
        with command("serve", settings, port=port):
            rate, took = asyncio.run(_load(port, count))
    note = f"{count:,} requests on {_CONNECTIONS} connections at once, load on the same cores"
    yield Row(name="HTTP server, embedded", value=rate, unit="requests/s", note=note)
    yield Row(name="HTTP server, p99", value=percentile(took, 0.99) * 1e3, unit="ms")
