"""Decisions on a real broker are found by their numbers, despite markers and aborted records."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

import pytest
from aiokafka.consumer.fetcher import PartitionRecords
from confluent_kafka import Producer

from accountant.errors import LogDamaged
from streams.errors import Refused, Unavailable
from streams.kafka.log.decision_reader import KafkaDecisionReader
from streams.kafka.log.kafka_log import KafkaLog
from streams.log.async_log import AsyncLog
from streams.testing import LocalBroker
from tests.faults import oracle
from tests.faults.ledger import Ledger, request, working
from tests.faults.operator import Operator
from tests.faults.proxy import FaultProxy
from tests.patience import PATIENCE_S

_NUMBERS = count()


def abort_some(ledger: Ledger, *values: bytes, partition: int = 0) -> None:
    """Write records among the decisions in another client's transaction, and abort it."""
    producer = transaction(ledger)
    producer.begin_transaction()
    for value in values:
        producer.produce(ledger.topic("decisions"), value, partition=partition)
    assert producer.flush(PATIENCE_S) == 0
    producer.abort_transaction(PATIENCE_S)


def transaction(ledger: Ledger) -> Producer:
    name = f"{ledger.deployment.application}-other-{next(_NUMBERS)}"
    settings = {"transactional.id": name, "log_level": 0, "transaction.timeout.ms": 600_000}
    producer = Producer({"bootstrap.servers": ledger.bootstrap, **settings})
    producer.init_transactions(PATIENCE_S)
    return producer


@asynccontextmanager
async def filled(
    broker: LocalBroker, application: str, *, via: str | None = None, rounds: int = 12
) -> AsyncIterator[Ledger]:
    """Yield a ledger of two partitions with many small transactions, aborted ones between them."""
    async with Ledger(broker.bootstrap, application, via=via, partitions=2) as ledger:
        async with working(ledger, batch=2):
            await ledger.open("a", "b", "c", "d", filter="basic", epsilon="100")
            for number in range(rounds):
                await ledger.send_all([request(name) for name in "abcd" for _ in range(3)])
                await ledger.settle()
                forged = request("a", purpose="never committed")
                abort_some(ledger, *[forged] * (number * 5), partition=number % 2)
        yield ledger


def logs(ledger: Ledger) -> list[list[bytes]]:
    """Return the committed decisions as another client library reads them."""
    found = oracle.read(ledger.bootstrap, ledger.topic("decisions"), 2)
    return [[record.value or b"" for record in part] for part in found]


@asynccontextmanager
async def reading(ledger: Ledger) -> AsyncIterator[KafkaDecisionReader]:
    reader = KafkaDecisionReader(ledger.deployment)
    try:
        yield reader
    finally:
        reader.close()


async def test_every_decision_is_found_by_its_number(broker: LocalBroker, application: str) -> None:
    async with filled(broker, application) as ledger:
        expected = logs(ledger)
        ends = [max(offset for offset in offsets) for offsets in offsets_of(ledger)]
        assert all(end > 2 * len(log) for end, log in zip(ends, expected, strict=True))
        for partition, log in enumerate(expected):
            async with reading(ledger) as reader:
                assert await reader.read(partition, 0, len(log) + 9) == log
                assert await reader.read(partition, len(log), 5) == []
                assert await reader.read(partition, len(log) + 10**9, 5) == []
                assert reader.offsets_left[partition] == 0
            for first in range(len(log)):
                async with reading(ledger) as reader:  # a new reader knows no offsets yet
                    assert await reader.read(partition, first, 3) == log[first : first + 3]
            async with reading(ledger) as reader:
                for first in reversed(range(len(log))):
                    assert await reader.read(partition, first, 1) == log[first : first + 1]


def offsets_of(ledger: Ledger) -> list[list[int]]:
    found = oracle.read(ledger.bootstrap, ledger.topic("decisions"), 2)
    return [[record.offset for record in part] for part in found]


async def test_single_decisions_come_in_the_requested_order(
    broker: LocalBroker, application: str
) -> None:
    async with filled(broker, application, rounds=6) as ledger:
        (log, _) = logs(ledger)
        some = [len(log) - 1, 3, 4, 20, 0]
        reader = AsyncLog(KafkaLog(ledger.deployment))
        assert await reader.decisions(0, some) == [log[number] for number in some]
        with pytest.raises(LogDamaged, match=f"has no decision {len(log)}"):
            await reader.decisions(0, [0, len(log)])
        reader.close()
        with pytest.raises(Unavailable, match="closing"):
            await reader.last(0)


async def test_records_after_the_start_of_an_open_transaction_are_not_read(
    broker: LocalBroker, application: str
) -> None:
    async with filled(broker, application, rounds=1) as ledger:
        before = len(logs(ledger)[0])
        open_one = transaction(ledger)
        open_one.begin_transaction()
        open_one.produce(ledger.topic("decisions"), b"not yet", partition=0)
        assert open_one.flush(PATIENCE_S) == 0
        try:
            async with reading(ledger) as reader:
                assert len(await reader.read(0, 0, 10_000)) == before
        finally:
            open_one.abort_transaction(PATIENCE_S)


async def test_a_log_with_another_start_or_end_is_reported(
    broker: LocalBroker, application: str
) -> None:
    async with filled(broker, application, rounds=2) as ledger:
        operator, log = Operator(ledger), logs(ledger)[0]
        async with reading(ledger) as reader:
            assert await reader.read(0, 0, 10_000) == log
            operator.delete("decisions")
            operator.create_bare("decisions")
            with pytest.raises(Unavailable, match="was recreated"):
                await reader.read(0, len(log), 5)
            assert await reader.read(0, len(log) - 1, 1) == []
            assert await reader.read(0, 0, 1) == []

    async with filled(broker, f"{application}x", rounds=2) as ledger:
        Operator(ledger).delete_before("decisions", 0, 5)
        async with reading(ledger) as reader:
            with pytest.raises((Unavailable, Refused), match="its first decisions were deleted"):
                await reader.read(0, 0, 1)


async def test_a_read_is_retried_after_a_broker_outage(
    broker: LocalBroker, application: str, proxy: FaultProxy
) -> None:
    async with filled(broker, application, via=proxy.bootstrap, rounds=1) as ledger:
        log = logs(ledger)[0]
        async with reading(ledger) as reader:
            assert await reader.read(0, 0, 3) == log[:3]
            reader.forget(0)
            with proxy.away(), pytest.raises(Unavailable):
                await reader.read(0, 5, 10_000)
            assert await reader.read(0, 5, 10_000) == log[5:]


def test_the_client_library_has_the_private_names_in_use() -> None:
    assert list(inspect.signature(PartitionRecords).parameters) == [
        "tp",
        "records",
        "aborted_transactions",
        "fetch_offset",
        "key_deserializer",
        "value_deserializer",
        "check_crcs",
        "isolation_level",
    ]


async def test_the_last_decision_is_found_from_the_end(
    broker: LocalBroker, application: str
) -> None:
    async with filled(broker, application, rounds=3) as ledger:
        log = logs(ledger)[0]
        for count in (1, 40, 700):  # only markers, and more offsets than the first search covers
            abort_some(ledger, *[request("a", purpose="never committed")] * count)
            async with reading(ledger) as reader:
                assert await reader.last(0) == (len(log) - 1, log[-1])
                assert await reader.read(0, len(log) - 2, 9) == log[-2:]
                assert await reader.last(0) == (len(log) - 1, log[-1])
        async with working(ledger):
            await ledger.ask("a")
            await ledger.settle()
        async with reading(ledger) as reader:
            number, value = await reader.last(0)
            assert (number, value) == (len(log), logs(ledger)[0][-1])
