"""Requests over several datasets through Kafka: decided on one partition, or in one group."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from confluent_kafka import Producer

from accountant.partition.key_hash import partition_of
from accountant.records.parts import by_dataset
from streams.kafka.service.kafka_service import KafkaService
from streams.testing import LocalBroker
from tests.faults.ledger import Ledger, new_id, request, working
from tests.kafka.command import command
from tests.kafka.test_reservations import decided, gateway
from tests.patience import PATIENCE_S


def over(names: list[str], epsilon: str) -> bytes:
    body: dict[str, Any] = json.loads(request(names[0], claim={"type": "pure", "epsilon": epsilon}))
    return json.dumps(body | {"other_datasets": names[1:]}).encode()


async def shown(service: KafkaService, name: str, spent: str) -> bool:
    """Tell whether a reader of the log comes to show what is spent of a dataset."""
    for _ in range(int(PATIENCE_S / 0.1)):
        view = await service.dataset(name)
        if view is not None and view.totals["epsilon"] == spent:
            return True
        await asyncio.sleep(0.1)
    return False


@pytest.mark.parametrize("partitions", [1, 4])
async def test_datasets_are_decided_together_on_one_partition_alone(
    broker: LocalBroker, application: str, partitions: int
) -> None:
    names = [f"d{i}" for i in range(4)]
    async with (
        Ledger(broker.bootstrap, application, partitions=partitions) as ledger,
        gateway(ledger.deployment) as service,
    ):
        async with working(ledger):
            for name in names:
                await ledger.open(name, filter="basic", epsilon="1", delta="0")
            decision, grant = await decided(service, over(names, "0.25"))
            if partitions > 1:
                assert (decision.outcome, decision.reason) == ("refused", "not_together")
                return
            assert decision.granted
            refused, _ = await decided(service, over(names[::-1], "0.8"))
            assert refused.refused_by == "d3"
        async with working(ledger):  # another worker replays the log
            last, _ = await decided(service, over(names[:2], "0.25"))
            totals = [each.totals for each in by_dataset(last)]
            assert [each and each["epsilon"] for each in totals] == ["0.5", "0.5"]
            for name, spent in zip(names, ("0.5", "0.5", "0.25", "0.25"), strict=True):
                assert await shown(service, name, spent)
                (_, first, *_) = await service.decisions(name, after=0, limit=10)
                assert json.loads(first)["part_of"] == grant


async def test_a_group_is_decided_together_on_its_partition(
    broker: LocalBroker, application: str
) -> None:
    ledger = Ledger(broker.bootstrap, application, partitions=4, placement="group")
    names = ["store::visits", "store::returns", "store", "survey::2026"]
    home = partition_of(b"store", 4)
    assert home != partition_of(b"survey", 4)
    assert home not in {partition_of(name.encode(), 4) for name in names[:2]}
    async with ledger, gateway(ledger.deployment) as service:
        async with working(ledger):
            for name in names:
                await ledger.open(name, filter="basic", epsilon="1", delta="0")
            decision, _ = await decided(service, over(names[:3], "0.25"))
            assert decision.granted
            assert decision.source is not None
            assert decision.source.partition == home
            apart, _ = await decided(service, over([*names[:2], names[3]], "0.25"))
            assert (apart.outcome, apart.reason) == ("refused", "not_together")
            assert apart.refused_by == names[3]
            # A program of another vendor: the key is the group, hashed as Java's producer does.
            producer = Producer(
                {"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random"}
            )
            for key in ("store", names[0]):
                body = over(names[:2], "0.25")
                producer.produce(ledger.topic("requests"), key=key, value=body)
            await asyncio.to_thread(producer.flush)
            assert await shown(service, names[1], "0.5")
            await ledger.settle()
        async with working(ledger):  # another worker replays the log
            last, _ = await decided(service, over(names[:2], "0.25"))
            totals = [each.totals for each in by_dataset(last)]
            assert [each and each["epsilon"] for each in totals] == ["0.75", "0.75"]
            for name, spent in zip(names, ("0.75", "0.75", "0.25", "0"), strict=True):
                assert await shown(service, name, spent)
            for name, grants in zip(names, (3, 3, 1), strict=False):
                assert [row.granted for row in await service.usage_by(name, "analyst")] == [grants]
    audited = await asyncio.to_thread(command, ledger, "audit", "--json")
    assert audited.returncode == 0, audited.stderr
    reports = [each["report"] for each in json.loads(audited.stdout)["partitions"]]
    assert [each["ok"] for each in reports] == [True] * 4
    assert sum(each["reasons"].get("wrong_partition", 0) for each in reports) == 1


def reserving(names: list[str]) -> bytes:
    session = {"type": "brownian", "variance": "400", "sensitivity": "1", "first": "10000"}
    body: dict[str, Any] = json.loads(request(names[0], claim=session))
    return json.dumps(body | {"other_datasets": names[1:], "reserve": {"until": "PT30M"}}).encode()


def step(kind: str, dataset: str, grant: str, **fields: Any) -> bytes:
    body = {"version": 1, "type": kind, "request_id": new_id(), "analyst": "ana"}
    return json.dumps(body | {"dataset": dataset, "grant": grant} | fields).encode()


async def open_grants(service: KafkaService, names: list[str], state: str | None) -> bool:
    """Tell whether a reader of the log comes to show one reservation in a state in each dataset."""
    for _ in range(int(PATIENCE_S / 0.1)):
        found = [
            (await service.reservations(name, after=0, limit=10)).reservations for name in names
        ]
        if [[row.state for row in rows] for rows in found] == [[state] if state else []] * len(
            names
        ):
            return True
        await asyncio.sleep(0.1)
    return False


async def test_a_reservation_over_datasets_is_taken_on_by_another_worker(
    broker: LocalBroker, application: str
) -> None:
    names = ["d0", "d1", "d2"]
    async with (
        Ledger(broker.bootstrap, application, partitions=1) as ledger,
        gateway(ledger.deployment) as service,
    ):
        async with working(ledger):
            for name in names:
                await ledger.open(name, filter="zcdp", rho="0.1")
            reserved, grant = await decided(service, reserving(names))
            assert reserved.outcome == "reserved"
        async with working(ledger):
            assert await open_grants(service, names, "reserved")
            other, _ = await decided(service, step("begin", "d1", grant))
            assert other.reason == "not_first_dataset"
            begun, _ = await decided(service, step("begin", "d0", grant))
            assert [part.dataset for part in begun.parts] == names
            assert await open_grants(service, names, "begun")
            holders = [service.open_reservation(name, grant) for name in names]
            assert [each and each.analyst for each in holders] == ["ana"] * 3
        async with working(ledger):
            settled, _ = await decided(service, step("settle", "d0", grant, shown="800"))
            totals = [each.totals for each in by_dataset(settled)]
            assert [each and each["rho"] for each in totals] == ["0.000625"] * 3
            assert await open_grants(service, names, None)
