"""Reservations through Kafka: another worker goes on with what an earlier one has reserved."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from accountant.records import Decision, decode_decision
from streams.client import AsyncAccountant, AsyncMechanismSession, Unanswered
from streams.kafka.deployment import Deployment
from streams.kafka.service.kafka_service import KafkaService
from streams.testing import LocalBroker
from tests.faults.ledger import Ledger, new_id, request, working
from tests.patience import PATIENCE_S

SESSION = {"type": "brownian", "variance": "400", "sensitivity": "1", "first": "10000"}


def reserving() -> bytes:
    body = json.loads(request("census", claim=SESSION))
    return json.dumps(body | {"reserve": {"until": "PT30M"}}).encode()


def step(kind: str, grant: str, **fields: Any) -> bytes:
    body = {"version": 1, "type": kind, "request_id": new_id(), "analyst": "ana"}
    return json.dumps(body | {"dataset": "census", "grant": grant} | fields).encode()


@asynccontextmanager
async def gateway(deployment: Deployment) -> AsyncIterator[KafkaService]:
    service = await KafkaService.start(deployment)
    try:
        yield service
    finally:
        await service.close()


async def decided(service: KafkaService, body: bytes) -> tuple[Decision, str]:
    answer = await service.submit("requests", body, wait=PATIENCE_S)
    assert answer.decision is not None
    digest = hashlib.sha256(answer.decision).hexdigest()
    return decode_decision(answer.decision), f"sha256:{digest}"


async def test_each_step_may_be_decided_by_another_worker(
    broker: LocalBroker, application: str
) -> None:
    async with (
        Ledger(broker.bootstrap, application, partitions=1) as ledger,
        gateway(ledger.deployment) as service,
    ):
        async with working(ledger):
            await ledger.open("census", filter="zcdp", rho="0.1")
            reserved, grant = await decided(service, reserving())
            assert reserved.outcome == "reserved"
        async with working(ledger):
            begun, _ = await decided(service, step("begin", grant))
            assert begun.outcome == "begun"
        async with working(ledger):
            settled, _ = await decided(service, step("settle", grant, shown="2500"))
            assert settled.outcome == "settled"
            assert settled.reservation is not None
            assert settled.reservation.returned == {"rho": "0.00105"}
            assert settled.totals is not None
            assert settled.totals["rho"] == "0.0002"
            late, _ = await decided(service, step("void", grant))
            assert late.reason == "not_open"


async def test_a_session_continues_where_no_worker_answered(
    broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    async with (
        Ledger(broker.bootstrap, application, partitions=1) as ledger,
        gateway(ledger.deployment) as service,
    ):
        client = AsyncAccountant("sqlite:///absent.db", analyst="ana")
        client._connection.attach(service)

        def session(wait: float = 30) -> AsyncMechanismSession:
            store, scope = tmp_path / "answers.db", {"unit": "person", "neighbours": "add_remove"}
            return client.reserve(
                "census", SESSION, until="PT30M", once="a", store=store, wait=wait, **scope
            )

        async with working(ledger):
            await ledger.open("census", filter="zcdp", rho="0.1")
            entered = session()
            await entered.__aenter__()
            await entered.run(lambda: lambda level: f"answer at {level}")
            assert await entered.show("2500") == "answer at 2500"
        # Nobody decides now: the settlement waits on the topic.
        entered._wait = 1
        with pytest.raises(Unanswered):
            await entered.__aexit__(None, None, None)
        async with working(ledger):
            async with session() as again:
                await again.run(lambda: None)
                assert await again.show("2500") == "answer at 2500"
            view = await client.dataset("census")
            assert view.totals["rho"] == "0.0002"
            found = [each async for each in client.requests("census")]
            assert [each.outcome for each in found][1:] == ["reserved", "begun", "settled"]


async def listed(service: KafkaService) -> list[tuple[str, str, str, dict[str, str]]]:
    page = await service.reservations("census", after=0, limit=100)
    return [
        (each.grant, each.request_id or "", each.state, each.held) for each in page.reservations
    ]


async def test_gateways_list_what_is_open_by_decisions_and_by_rows(
    broker: LocalBroker, application: str
) -> None:
    async with (
        Ledger(broker.bootstrap, application, partitions=1) as ledger,
        gateway(ledger.deployment) as first,
        working(ledger),
    ):
        await ledger.open("census", filter="zcdp", rho="0.1")
        bodies = [reserving() for _ in range(3)]
        grants = [(await decided(first, body))[1] for body in bodies]
        await decided(first, step("begin", grants[1]))
        await decided(first, step("void", grants[2]))
        expected = [
            (grants[0], json.loads(bodies[0])["request_id"], "reserved", {"rho": "0.00125"}),
            (grants[1], json.loads(bodies[1])["request_id"], "begun", {"rho": "0.00125"}),
        ]
        found = [(*each[:3], {"rho": each[3]["rho"]}) for each in await listed(first)]
        assert found == expected
        async with gateway(ledger.deployment) as later:
            assert await listed(later) == await listed(first)
            assert [each[0] for each in await listed(later)] == grants[:2]
        await decided(first, step("settle", grants[1], shown="2500"))
        assert [each[0] for each in await listed(first)] == grants[:1]
