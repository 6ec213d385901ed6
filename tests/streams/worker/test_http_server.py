"""The tables of budgets and usage at a worker's own port."""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from accountant.views.counted_decisions import runs
from accountant.views.usage import MAX_ANALYSTS, OTHERS
from streams.auth import token_file
from streams.clock import SystemClock
from streams.metrics.live_ledgers import LiveLedgers
from streams.service.live_views import CountedDecisions, LiveViews
from streams.settings import Settings
from streams.worker.http_server import WorkerHttpServer
from streams.worker.status import Status
from streams.worker.tables import WorkerTables
from tests.accountant.world import World


@pytest.fixture(scope="module")
def tables() -> WorkerTables:
    """Return the tables of two datasets, one of them with more analysts than are distinguished."""
    world = World(batch=500)
    for name in "census", "adult":
        world.open(name, epsilon="1", filter="basic")
    for number in range(MAX_ANALYSTS + 2):
        world.ask("pure:5", analyst=f"a{number}")
    world.ask("pure:0.1", dataset="adult", analyst="eve")
    world.ask("pure:0.1", dataset="adult", analyst="ana")
    world.commit()
    found = WorkerTables({}, {}, CountedDecisions(), lambda _: world.state)
    for dataset, run in runs(world.encoded).items():
        found.take_run(0, dataset, run, own=-1)
    return found


@contextlib.asynccontextmanager
async def served(tables: WorkerTables, **more: Any) -> AsyncIterator[httpx.AsyncClient]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    server = WorkerHttpServer(
        Settings(metrics_port=port, **more), source=LiveLedgers(), readiness=Status().readiness
    )
    ledgers = dict(tables.ledgers)
    server.show(LiveViews(lambda: [ledgers], ledgers.get, tables.counts), tables.usage)
    await server.start()
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            yield client
    finally:
        await server.stop()


async def test_a_dataset_is_shown_with_its_own_analysts(tables: WorkerTables) -> None:
    async with served(tables) as client:
        shown = (await client.get("/datasets/adult")).json()
        listed = (await client.get("/datasets")).json()
        misspelt = await client.get("/datasets?dataset=adult")
        probed = await client.get("/healthz?verbose")
        missing = await client.get("/datasets/nowhere")
        head = await client.head("/datasets")
    assert (head.status_code, head.content) == (200, b"")
    assert (misspelt.status_code, misspelt.json()["field"]) == (400, "dataset")
    assert probed.status_code == 200
    assert shown["dataset"]["outcomes"] == {"opened": 1, "granted": 2}
    assert [(use["analyst"], use["spent"]) for use in shown["usage"]] == [
        ("ana", "0.1"),
        ("eve", "0.1"),
    ]
    assert [view["dataset"] for view in listed] == ["adult", "census"]
    assert missing.status_code == 404
    assert missing.json()["error"] == "unknown_dataset"
    assert "nowhere" in missing.json()["message"]


async def test_a_server_leaves_the_lines_of_its_process_as_they_are(tables: WorkerTables) -> None:
    before = list(logging.getLogger().handlers)
    async with served(tables):
        assert logging.getLogger().handlers == before


async def test_excess_analysts_are_shown_together_at_the_end(tables: WorkerTables) -> None:
    async with served(tables) as client:
        usage = (await client.get("/datasets/census")).json()["usage"]
    assert len(usage) == MAX_ANALYSTS + 1
    assert usage[:-1] == sorted(usage[:-1], key=lambda use: use["analyst"])
    assert (usage[-1]["analyst"], usage[-1]["refused"]) == (OTHERS, 2)


async def test_a_page_with_dns_rebinding_reads_nothing(tables: WorkerTables) -> None:
    async with served(tables) as client:
        answers = [
            await client.get(path, headers={"Host": "ledger.example.org"})
            for path in ("/datasets/adult", "/datasets", "/metrics")
        ]
        local = await client.get("/datasets", headers={"Host": "localhost:9"})
    assert [answer.status_code for answer in answers] == [421, 421, 421]
    assert local.status_code == 200


async def test_health_checks_are_answered_as_by_a_gateway(tables: WorkerTables) -> None:
    async with served(tables) as client:
        alive, ready, metrics = [
            await client.get(path) for path in ("/healthz", "/readyz", "/metrics")
        ]
    assert (alive.status_code, alive.json()) == (200, {"alive": True})
    assert (ready.status_code, ready.json()) == (200, {"ready": True, "reasons": []})
    assert metrics.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "privacy_accountant_build_info" in metrics.text


async def test_with_authentication_only_health_is_open(
    tables: WorkerTables, tmp_path: Path
) -> None:
    tokens, now = tmp_path / "tokens.json", SystemClock().now()
    names = ("olga", "scraper", "ana")
    made = {name: token_file.create(tokens, name, now=now).token for name in names}
    known = {"tokens": tokens, "administrators": "olga", "metrics_readers": "scraper"}
    paths = ("/metrics", "/datasets", "/datasets/adult", "/nowhere", "/healthz", "/readyz")
    expected = {
        "olga": [200, 200, 200, 404, 200, 200],
        "scraper": [200, 403, 403, 404, 200, 200],
        "ana": [403, 403, 403, 404, 200, 200],
        None: [401, 401, 401, 401, 200, 200],
    }
    async with served(tables, **known) as client:
        for name, statuses in expected.items():
            shown = {} if name is None else {"Authorization": f"Bearer {made[name]}"}
            for method in (client.get, client.head):
                answers = [await method(path, headers=shown) for path in paths]
                assert [answer.status_code for answer in answers] == statuses, name
        assert (await client.get("/readyz")).json() == {"ready": True}
        tokens.unlink()  # which keeps people out, and no request from being decided
        ready = await client.get("/readyz")
        assert ready.status_code == 200
        assert ready.json()["notes"][0].startswith("every token of the file of")
