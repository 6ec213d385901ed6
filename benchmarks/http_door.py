"""The HTTP door of an embedded ledger, asked by many clients at once."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from benchmarks import requests
from benchmarks.measure import Row, Scale, percentile
from benchmarks.processes import command, free_port

_CLIENTS = 16
_DATASETS = 50


async def _load(url: str, count: int) -> tuple[float, list[float]]:
    """Return requests a second and the seconds that each took."""
    took: list[float] = []
    names = requests.names(_DATASETS)
    async with httpx.AsyncClient(base_url=url, timeout=10) as client:

        async def send(path: str, body: bytes) -> None:
            headers = {"content-type": "application/json"}
            answer = await client.post(path, content=body, headers=headers)
            answer.raise_for_status()

        for name in names:
            await send("/datasets", requests.opening(name, requests.now()))

        async def ask(number: int) -> None:
            for i in range(number, count, _CLIENTS):
                body = requests.request(names[i % _DATASETS], requests.now(), i)
                started = time.perf_counter()
                await send("/requests", body)
                took.append(time.perf_counter() - started)

        started = time.perf_counter()
        await asyncio.gather(*[ask(number) for number in range(_CLIENTS)])
        return count / (time.perf_counter() - started), took


def rows(scale: Scale) -> Iterator[Row]:
    """Yield rate and tail of requests over HTTP."""
    count = scale.of(10_000)
    port = free_port()
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR", ".")) as directory:
        settings = {
            "ACCOUNTANT_URL": f"sqlite:///{Path(directory).absolute() / 'ledger.db'}",
            "ACCOUNTANT_PORT": str(port),
        }
        with command("serve", settings, port=port):
            rate, took = asyncio.run(_load(f"http://127.0.0.1:{port}", count))
    note = f"{count:,} requests of {_CLIENTS} clients at once, client on the same cores"
    yield Row(name="HTTP door, embedded", value=rate, unit="requests/s", note=note)
    yield Row(name="HTTP door, p99", value=percentile(took, 0.99) * 1e3, unit="ms")
