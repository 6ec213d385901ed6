"""Usage of a ledger on Kafka comes from an index of the whole log, and delays no decision."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import pytest

from accountant.partition.key_hash import partition_of
from accountant.views.usage import BYS, By
from streams.errors import Unavailable
from streams.kafka.deployment import Deployment
from streams.kafka.log import topics
from streams.kafka.service.kafka_service import KafkaService
from streams.kafka.service.usage import KafkaUsage
from streams.metrics.analysts import UsageCollector
from streams.metrics.registry import make_registry
from streams.server.gateway_server import GatewayServer, run_gateway
from streams.settings import load
from streams.testing import LocalBroker
from tests.faults import oracle
from tests.faults.ledger import Ledger, request, until, working
from tests.faults.operator import Operator
from tests.faults.proxy import FaultProxy
from tests.kafka.test_decision_reader import abort_some, transaction
from tests.patience import PATIENCE_S
from tests.streams.index.logs import recounted
from tests.threads import threads_named

# One dataset of each partition.
NAMES = ["d0", "d1"]
OPTIONS: dict[str, Any] = {"partitions": 2}
Usage = dict[str, tuple[int, int, str]]


def test_the_datasets_are_of_both_partitions() -> None:
    assert {partition_of(name.encode(), 2) for name in NAMES} == {0, 1}


def logs(ledger: Ledger) -> list[bytes]:
    """Return all committed decisions as another client library reads them."""
    found = oracle.read(ledger.bootstrap, ledger.topic("decisions"), ledger.deployment.partitions)
    return [record.value or b"" for part in found for record in part]


@pytest.fixture
async def ledger(broker: LocalBroker, application: str) -> AsyncIterator[Ledger]:
    """A ledger of two partitions."""
    async with Ledger(broker.bootstrap, application, **OPTIONS) as made:
        yield made


async def ask_some(ledger: Ledger, rounds: int = 10, *, analyst: str = "a") -> None:
    """Have some requests decided, on both datasets."""
    bodies = [
        request(
            name,
            epsilon="9" if number % 4 == 3 else f"0.{number % 9 + 1}",
            analyst=f"{analyst}{number % 3}",
            purpose=["", 'x"y', "α"][number % 3],
        )
        for number in range(rounds)
        for name in NAMES
    ]
    await ledger.send_all(bodies)
    await ledger.settle()


async def open_both(ledger: Ledger) -> None:
    await ledger.open(*NAMES, filter="basic", epsilon="5")
    await ledger.settle()


@asynccontextmanager
async def served(
    where: Deployment, index: Path | None, *, analysts: int = 0
) -> AsyncIterator[httpx.AsyncClient]:
    """Serve the ledger over HTTP, as `accountant gateway` does."""
    service = await KafkaService.start(where, index=index)
    settings = load(port=0)
    where_it_is: asyncio.Queue[str] = asyncio.Queue()
    servers: list[GatewayServer] = []
    service.usage_index.start()
    registry = make_registry(None, UsageCollector(service.usage_index, analysts))
    serving = asyncio.create_task(
        run_gateway(
            service,
            settings,
            registry=registry,
            listening=where_it_is.put_nowait,
            made=servers.append,
        )
    )
    try:
        url = await asyncio.wait_for(where_it_is.get(), PATIENCE_S)
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S, trust_env=False) as http:
            yield http
    finally:
        if servers:
            servers[0].stop()
        await serving
        await service.close()


async def used(http: httpx.AsyncClient, name: str, by: By = "analyst") -> Usage:
    """Return the usage of a dataset; ask again where it is being built."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            answer = await http.get(f"/datasets/{name}/usage", params={"by": by})
            if answer.status_code == 200:
                return {r[by]: (r["granted"], r["refused"], r["spent"]) for r in answer.json()}
            assert answer.status_code == 503, answer.text


async def check(http: httpx.AsyncClient, ledger: Ledger) -> None:
    """Compare every way to look at usage with a plain count of the whole log."""
    log = await asyncio.to_thread(logs, ledger)
    for name in NAMES:
        for by in BYS:
            found = await used(http, name, by)
            expected = recounted(log, name, by)
            assert {k: (g, r, Fraction(s)) for k, (g, r, s) in found.items()} == expected


async def metric(http: httpx.AsyncClient, line: str) -> float | None:
    for found in (await http.get("/metrics")).text.splitlines():
        name, _, value = found.rpartition(" ")
        if name == line:
            return float(value)
    return None


async def notes(http: httpx.AsyncClient) -> list[str]:
    answer = await http.get("/readyz")
    assert answer.status_code == 200
    return list(answer.json().get("notes", []))


async def eventually_no_notes(http: httpx.AsyncClient) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while await notes(http):
        assert time.monotonic() < deadline, await notes(http)
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("in_a_file", [True, False])
async def test_usage_from_before_the_window_survives_a_restart(
    ledger: Ledger, tmp_path: Path, in_a_file: bool
) -> None:
    index = tmp_path / "usage.index" if in_a_file else None
    line = 'privacy_analyst_requests_total{analyst="a0",dataset="d0",outcome="granted"}'
    async with working(ledger):
        await open_both(ledger)
        await ask_some(ledger)
        async with served(ledger.deployment, index, analysts=10) as http:
            await check(http, ledger)
            before = await metric(http, line)
        # A window and a tail that have passed them.
        later = replace(ledger.deployment, window_ms=1, skew_ms=0)
        async with served(later, index, analysts=10) as http:
            await check(http, ledger)
            assert before == await metric(http, line) == 3
            await ask_some(ledger, analyst="b")
            await check(http, ledger)
            await eventually_no_notes(http)
            assert await metric(http, "privacy_usage_index_behind") == 0
            assert await metric(http, "privacy_usage_index_trouble") == 0
            # Three analysts before and three since, of two datasets; ten are shown.
            assert await metric(http, "privacy_analyst_requests_left_out_total") == 6
    assert (tmp_path / "usage.index").exists() is in_a_file


async def test_recreated_topics_restart_the_index(ledger: Ledger, tmp_path: Path) -> None:
    index = tmp_path / "usage.index"
    async with working(ledger):
        await open_both(ledger)
        await ask_some(ledger)
    async with served(ledger.deployment, index) as http:
        await check(http, ledger)
    operator = Operator(ledger)
    operator.delete("requests", "admin", "decisions", "state")
    await topics.create(ledger.deployment)
    async with (
        Ledger(ledger.bootstrap, ledger.deployment.application, **OPTIONS) as recreated,
        working(recreated),
    ):
        await open_both(recreated)
        # The same number of decisions as before: only their hashes differ.
        await ask_some(recreated, analyst="new")
        async with served(recreated.deployment, index) as http:
            await check(http, recreated)
            assert set(await used(http, "d0")) == {"new0", "new1", "new2"}
            await eventually_no_notes(http)


async def test_aborted_and_uncommitted_decisions_are_never_counted(
    ledger: Ledger, tmp_path: Path
) -> None:
    async with working(ledger):
        await open_both(ledger)
        await ask_some(ledger)
    log = logs(ledger)
    # Copies of true decisions, so that only their transaction distinguishes them.
    abort_some(ledger, *log[5:], partition=0)
    async with served(ledger.deployment, tmp_path / "usage.index") as http:
        await check(http, ledger)
        abort_some(ledger, *log[5:], partition=0)
        open_one = transaction(ledger)
        open_one.begin_transaction()
        open_one.produce(ledger.topic("decisions"), log[9], partition=0)
        assert open_one.flush(PATIENCE_S) == 0
        before = await used(http, "d0")
        open_one.abort_transaction(PATIENCE_S)
        async with working(ledger):
            await ask_some(ledger, 4, analyst="late")
            await check(http, ledger)
            assert len(await used(http, "d0")) == len(before) + 3
        assert await notes(http) == []


async def test_two_servers_with_one_file_detect_each_other(ledger: Ledger, tmp_path: Path) -> None:
    index = tmp_path / "usage.index"
    async with working(ledger):
        await open_both(ledger)
        await ask_some(ledger)
        async with served(ledger.deployment, index) as first:
            await check(first, ledger)
            async with served(ledger.deployment, index) as second:
                await ask_some(ledger, 3, analyst="late")
                await check(second, ledger)
                await check(first, ledger)
                assert "is in use: process" in (await notes(second))[0]
                assert await metric(second, "privacy_usage_index_trouble") == 1
                assert await notes(first) == []


async def test_a_datasets_decisions_are_read_back_in_their_order(
    ledger: Ledger, tmp_path: Path
) -> None:
    async with working(ledger, batch=3):
        await open_both(ledger)
        await ask_some(ledger, 12)
    log = logs(ledger)
    abort_some(ledger, *log[5:], partition=1)
    usage = KafkaUsage(ledger.deployment, tmp_path / "usage.index")
    try:
        for name in NAMES:
            expected = [
                value
                for value in log
                if (decision := json.loads(value)).get("dataset") == name and "sequence" in decision
            ]
            assert len(expected) == 13
            pages = [await usage.decisions(name, after=after, limit=5) for after in (0, 5, 10, 13)]
            assert pages == [expected[:5], expected[5:10], expected[10:], []]
        assert await usage.decisions("nowhere", after=0, limit=5) == []
    finally:
        await usage.close()


async def test_a_client_reads_the_log_only_for_usage(ledger: Ledger) -> None:
    async with working(ledger):
        await open_both(ledger)
        before = threads_named("usage-index")
        service = await KafkaService.start(ledger.deployment)
        try:
            answer = await service.submit("requests", request("d0"), wait=PATIENCE_S)
            assert answer.decision is not None
            assert threads_named("usage-index") <= before
            assert service.readiness().notes == []
            (row,) = await service.usage("d0")
            assert (row.analyst, row.granted) == ("ana", 1)
            assert await service.usage("nowhere") == []
        finally:
            await service.close()


async def test_an_unreadable_log_is_a_503_with_the_reason(
    ledger: Ledger, proxy: FaultProxy, tmp_path: Path
) -> None:
    """The index stops while its broker does, and then gives no answer."""
    away = replace(ledger.deployment, bootstrap=proxy.bootstrap)
    async with working(ledger):
        await open_both(ledger)
        await ask_some(ledger)
        usage = KafkaUsage(away, tmp_path / "usage.index")
        try:
            usage.note_decision(0, 3)
            usage.start()
            before = await usage.rows("d0", "day")
            assert before
            with proxy.away():
                usage.note_decision(0, 10_000)
                with pytest.raises(Unavailable, match=r"behind: partition 0: .* of 10000"):
                    await usage.rows("d0", "day")
                assert "partition 0: the broker cannot be reached" in usage.notes()[0]
                assert usage.state().behind > 0
            usage.note_decision(0, 3)
            await until(lambda: not usage.notes(), "the index is whole")
            assert await usage.rows("d0", "day") == before
        finally:
            await usage.close()
