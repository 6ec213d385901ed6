"""One contract for a ledger that reads its log itself, as what a server serves: file and Kafka."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from accountant.partition import hash_of
from accountant.records import decode_decision
from streams.embedded.service import EmbeddedService
from streams.kafka.service.kafka_service import KafkaService
from tests.patience import PATIENCE_S
from tests.streams.test_usage_contract import IndexedLedger, InFile, OnKafka, decided, open_two

Opened = tuple[IndexedLedger, EmbeddedService | KafkaService]


@pytest.fixture(params=["file", pytest.param("kafka", marks=pytest.mark.kafka)])
async def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opened]:
    """A ledger with d0 and d1 open, of two partitions on Kafka."""
    kept: IndexedLedger = InFile(tmp_path)
    if request.param == "kafka":
        bootstrap = request.getfixturevalue("broker").bootstrap
        on_kafka = OnKafka(bootstrap, request.getfixturevalue("application"), tmp_path)
        await on_kafka.start()
        kept = on_kafka
    service = await kept.open()
    await open_two(service)
    yield kept, service
    await service.close()
    await kept.close()


async def ask(service: EmbeddedService | KafkaService, count: int) -> None:
    from tests.faults.ledger import request

    for number in range(count):
        assert await decided(service, "requests", request(f"d{number % 2}")) == "granted"


async def parts(kept: IndexedLedger, service: EmbeddedService | KafkaService) -> list[list[bytes]]:
    """Return the decisions of each partition, as another reader finds them."""
    log = await asyncio.to_thread(kept.log)
    begins = [number for number, value in enumerate(log) if b'"outcome":"genesis"' in value]
    assert len(begins) == service.partitions
    return [log[begin:end] for begin, end in zip(begins, [*begins[1:], len(log)], strict=True)]


async def test_the_log_is_read_from_any_number_on(ledger: Opened) -> None:
    kept, service = ledger
    await ask(service, 12)
    for partition, log in enumerate(await parts(kept, service)):
        assert len(log) >= 7
        for first in range(len(log)):
            for most in (1, 3, 1_000):
                found = await service.log.read(partition, first, most)
                assert list(found) == log[first : first + most]
        assert list(await service.log.read(partition, len(log), 5)) == []
        assert list(await service.log.read(partition, 10**15, 5)) == []


async def test_the_last_decision_is_the_one_that_was_answered_last(ledger: Opened) -> None:
    kept, service = ledger
    for _ in range(3):
        await ask(service, 2)
        for partition, log in enumerate(await parts(kept, service)):
            assert await service.log.last(partition) == (len(log) - 1, log[-1])


async def test_decisions_become_visible_in_order(ledger: Opened) -> None:
    kept, service = ledger
    before = [len(log) for log in await parts(kept, service)]
    coming = service.log.appended()
    await ask(service, 8)
    after = await parts(kept, service)
    found: list[list[bytes]] = [[] for _ in after]
    async with asyncio.timeout(PATIENCE_S):
        while sum(map(len, found)) < sum(map(len, after)) - sum(before):
            appended = await anext(coming)
            numbers = [json.loads(value)["partition_sequence"] for value in appended.values]
            assert numbers[:1] in ([appended.first], [])
            found[appended.partition] += appended.values
    coming.close()
    assert found == [log[count:] for log, count in zip(after, before, strict=True)]


async def test_the_reported_heads_equal_those_of_the_log(ledger: Opened) -> None:
    kept, service = ledger
    for _ in range(2):
        await ask(service, 3)
        heads = await service.heads()
        logs = await parts(kept, service)
        named = {decode_decision(log[0]).genesis.ledger for log in logs}  # type: ignore[union-attr]
        assert {each.ledger for each in heads} == named
        assert [each.partition for each in heads] == list(range(len(logs)))
        for head, log in zip(heads, logs, strict=True):
            assert (head.partition_sequence, head.head) == (len(log) - 1, hash_of(log[-1]))
            assert head.decided_at == decode_decision(log[-1]).decided_at


async def test_a_log_that_lost_nothing_is_branch_0(ledger: Opened) -> None:
    _, service = ledger
    await ask(service, 2)
    assert [each.branch for each in await service.heads()] == [0] * service.partitions
