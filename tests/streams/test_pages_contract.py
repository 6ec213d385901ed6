"""One contract for a dataset's pages of decisions: in a file, on Kafka, and over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from streams.client.http.service import HttpService
from streams.errors import Unavailable
from streams.log.decision_log import MAX_PAGE_BYTES
from streams.server.gateway_server import GatewayServer, run_gateway
from streams.service.ledger_service import Service
from streams.settings import Settings
from tests.patience import PATIENCE_S
from tests.streams.test_usage_contract import IndexedLedger, InFile, OnKafka, decided, open_two


@contextlib.asynccontextmanager
async def behind_a_server(service: Service) -> AsyncIterator[HttpService]:
    """Serve a ledger in this loop; yields a client of it."""
    urls: asyncio.Queue[str] = asyncio.Queue()
    servers: list[GatewayServer] = []
    settings = Settings(port=0)
    serving = asyncio.create_task(
        run_gateway(service, settings, listening=urls.put_nowait, made=servers.append)
    )
    async with asyncio.timeout(PATIENCE_S):
        client = HttpService(await urls.get())
    try:
        yield client
    finally:
        await client.close()
        servers[0].stop()
        await serving


@pytest.fixture(
    params=[
        "file",
        "file behind a server",
        pytest.param("kafka", marks=pytest.mark.kafka),
        pytest.param("kafka behind a server", marks=pytest.mark.kafka),
    ]
)
async def ledger(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[IndexedLedger, Service]]:
    """A ledger with d0 and d1 open, of two partitions on Kafka, and what to ask it by."""
    kept: IndexedLedger = InFile(tmp_path)
    if request.param.startswith("kafka"):
        bootstrap = request.getfixturevalue("broker").bootstrap
        on_kafka = OnKafka(bootstrap, request.getfixturevalue("application"), tmp_path)
        await on_kafka.start()
        kept = on_kafka
    service = await kept.open()
    await open_two(service)
    async with contextlib.AsyncExitStack() as stack:
        asked: Service = service
        if request.param.endswith("server"):
            asked = await stack.enter_async_context(behind_a_server(service))
        yield kept, asked
    await service.close()
    await kept.close()


async def page(service: Service, name: str, *, after: int, most: int) -> list[bytes]:
    """Return a page; ask again where the index is being built."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await service.decisions(name, after=after, limit=most)
            except Unavailable:
                await asyncio.sleep(0.05)


async def all_pages(service: Service, name: str, *, most: int) -> list[bytes]:
    found: list[bytes] = []
    while more := await page(service, name, after=number(found), most=most):
        assert len(more) <= most
        found += more
    return found


def number(found: list[bytes]) -> int:
    return int(json.loads(found[-1])["sequence"]) if found else 0


def of_dataset(log: list[bytes], name: str) -> list[bytes]:
    """Return the numbered decisions of a dataset in a log."""
    decisions = [(json.loads(value), value) for value in log]
    return [
        value
        for decision, value in decisions
        if decision.get("dataset") == name and "sequence" in decision
    ]


async def test_pages_are_the_log_of_a_dataset(ledger: tuple[IndexedLedger, Service]) -> None:
    from tests.faults.ledger import request

    kept, service = ledger
    for n in range(9):
        name = f"d{n % 2}"
        body = request(name, epsilon="5" if n % 3 == 2 else "0.05", analyst=f"a{n}")
        assert await decided(service, "requests", body) in {"granted", "refused"}
        assert await decided(service, "requests", body) == "repeated"
    log = await asyncio.to_thread(kept.log)
    for name, count in (("d0", 6), ("d1", 5)):
        expected = of_dataset(log, name)
        assert len(expected) == count
        for most in (1, 2, 1_000):
            assert await all_pages(service, name, most=most) == expected
        assert await page(service, name, after=2, most=2) == expected[2:4]
        assert await page(service, name, after=count, most=10) == []
        assert await page(service, name, after=2**53 - 1, most=10) == []


async def test_an_answered_decision_is_in_the_next_page(
    ledger: tuple[IndexedLedger, Service],
) -> None:
    from tests.faults.ledger import request

    _, service = ledger
    for n in range(1, 6):
        assert await decided(service, "requests", request("d0", epsilon="0.1")) == "granted"
        (found,) = await page(service, "d0", after=n, most=100)
        assert json.loads(found)["sequence"] == n + 1


async def test_no_dataset_has_no_page(ledger: tuple[IndexedLedger, Service]) -> None:
    _, service = ledger
    assert await page(service, "nowhere", after=0, most=10) == []


async def test_a_page_of_long_decisions_is_shorter(ledger: tuple[IndexedLedger, Service]) -> None:
    from tests.faults.ledger import request

    kept, service = ledger
    padding = " " * 60_000  # within a body, where it belongs to what was sent
    for _ in range(0, MAX_PAGE_BYTES + 300_000, 60_000):
        body = request("d0", epsilon="0.001").replace(b'"claim":', b'"claim":' + padding.encode())
        assert await decided(service, "requests", body) == "granted"
    found = await page(service, "d0", after=0, most=1_000)
    assert sum(map(len, found[:-1])) < MAX_PAGE_BYTES <= sum(map(len, found))
    rest = await page(service, "d0", after=number(found), most=1_000)
    assert found + rest == of_dataset(await asyncio.to_thread(kept.log), "d0")
