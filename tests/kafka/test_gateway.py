"""The server of a ledger on Kafka continues, or reports that it does not."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from accountant.claims.text import parse_claim
from accountant.records import decode_decision
from accountant.records.previews import PreviewRequest
from streams.client import AsyncAccountant, Reply
from streams.errors import JournalFault, Refused, Unavailable
from streams.kafka.deployment import Deployment, TopicNames
from streams.kafka.log.kafka_log import KafkaLog
from streams.kafka.log.topics import SETTINGS
from streams.kafka.service.kafka_service import KafkaService
from streams.kafka.wire.producer import TransactionalProducer
from streams.kafka.wire.security import Cluster
from streams.testing import LocalBroker
from tests.faults.ledger import Ledger, new_id, request, until, working
from tests.faults.operator import Operator
from tests.patience import PATIENCE_S


async def test_a_gateway_that_cannot_follow_the_log_is_not_ready(
    broker: LocalBroker, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        service = await KafkaService.start(ledger.deployment)
        try:
            assert service.readiness().ready
            producer = TransactionalProducer(
                Cluster(ledger.bootstrap), f"{ledger.deployment.application}-x"
            )
            await producer.start()
            decisions = ledger.topic("decisions")
            await producer.transact(0, {decisions: [(b"ds", None, 0, ())]})
            producer.drop()
            await until(lambda: not service.readiness().ready, "the tail has said so")
            assert "decisions cannot be read" in service.readiness().reasons[0]
            with pytest.raises(Unavailable, match="cannot be read"):
                await service.submit("requests", request("ds"), wait=1)
        finally:
            await service.close()


async def test_a_preview_includes_the_last_decision(broker: LocalBroker, application: str) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger, working(ledger):
        await ledger.open("ds", filter="basic", epsilon="1")
        service = await KafkaService.start(ledger.deployment)
        small = PreviewRequest(parse_claim("pure:0.25"), "person", "add_remove")
        try:
            assert await service.preview("nowhere", small) is None
            answer = await service.submit(
                "requests", request("ds", epsilon="0.25"), wait=PATIENCE_S
            )
            assert answer.decision is not None
            decision = decode_decision(answer.decision)
            assert decision.granted
            shown = await service.preview("ds", small)
            assert shown is not None
            assert (shown.granted, shown.sequence, shown.more) == (True, decision.sequence, 2)
            assert shown.left == {"epsilon": "0.5", "delta": "0"}
            large = PreviewRequest(parse_claim("pure:0.8"), "person", "add_remove")
            refused = await service.preview("ds", large)
            assert refused is not None
            assert (refused.reason, refused.fits) == ("exhausted", "pure:0.75")
        finally:
            await service.close()


async def test_many_requests_are_decided_in_order_and_a_repeat_is_not_charged(
    broker: LocalBroker, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=2) as ledger, working(ledger):
        for name in ("one", "two"):
            await ledger.open(name, filter="basic", epsilon="1")
        service = await KafkaService.start(ledger.deployment)
        client = AsyncAccountant("sqlite:///absent.db", analyst="ana")
        client._connection.attach(service)
        requests: list[Any] = [
            {
                "dataset": ("one", "two")[number % 2],
                "claim": "pure:0.001",
                "request_id": new_id(),
            }
            for number in range(300)
        ]
        requests[7] = {**requests[7], "claim": "pure:2"}
        try:
            found = await client.ask_many(requests)
            shown = [each.outcome for each in found if isinstance(each, Reply)]
            assert shown == ["granted"] * 7 + ["refused"] + ["granted"] * 292
            again = await client.ask_many(requests)
            assert {each.outcome for each in again if isinstance(each, Reply)} == {"repeated"}
            view = await service.dataset("one")
            assert view is not None
            assert view.totals is not None
            assert view.totals["epsilon"] == "0.15"
        finally:
            await client.disconnect()


async def test_a_refused_record_does_not_end_its_producer(
    broker: LocalBroker, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger, working(ledger):
        operator = Operator(ledger)
        await ledger.open("ds", filter="basic", epsilon="1")
        service = await KafkaService.start(ledger.deployment)
        try:
            assert (await service.submit("requests", request("ds"), wait=PATIENCE_S)).decision
            operator.alter("requests", "max.message.bytes", "300")
            large = request("ds", purpose="x" * 190)
            async with asyncio.timeout(PATIENCE_S):
                while True:  # the broker learns of it in a moment
                    try:
                        await service.submit("requests", large, wait=PATIENCE_S)
                    except (JournalFault, Refused):
                        break
                operator.alter(
                    "requests", "max.message.bytes", SETTINGS["requests"]["max.message.bytes"]
                )
                body, answer = request("ds", request_id=new_id()), None
                while answer is None:
                    try:
                        answer = (await service.submit("requests", body, wait=PATIENCE_S)).decision
                    except Unavailable:
                        await asyncio.sleep(0.1)
            assert b'"outcome":"granted"' in answer
        finally:
            await service.close()


async def test_missing_topics_are_refused_before_any_wait(
    broker: LocalBroker, application: str
) -> None:
    missing = Deployment(
        bootstrap=broker.bootstrap, application=application, topics=TopicNames(f"{application}.")
    )
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(Refused, match=r"missing topics: .*`accountant topics create`"):
            await KafkaService.start(missing, wait=600)


@pytest.mark.parametrize("partitions", [1, 3])
async def test_a_wrong_number_of_partitions_is_refused(
    broker: LocalBroker, application: str, partitions: int
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=2) as ledger:
        other = replace(ledger.deployment, partitions=partitions)
        with pytest.raises(Refused, match=r"has 2 partitions.*ACCOUNTANT_PARTITIONS"):
            await KafkaService.start(other, wait=5)
        with pytest.raises(Refused, match=r"has 2 partitions.*ACCOUNTANT_PARTITIONS"):
            await asyncio.to_thread(lambda: list(KafkaLog(other).parts()))


async def test_too_few_partitions_are_detected_by_later_clients_too(
    broker: LocalBroker, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=2) as ledger:
        late = KafkaService(replace(ledger.deployment, partitions=1))
        with pytest.raises(Refused, match=r"has 2 partitions.*ACCOUNTANT_PARTITIONS"):
            await late.connect()
        await late.close()
