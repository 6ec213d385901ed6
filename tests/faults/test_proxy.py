"""The fault proxy strikes the chosen requests, on a real broker and with a real client."""

from __future__ import annotations

import asyncio
import struct

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError

from streams.testing import LocalBroker
from tests.faults.frames import Action, Api
from tests.faults.proxy import FaultProxy

INVALID_PRODUCER_EPOCH = 47
PRODUCER_FENCED = 90


@pytest.fixture
async def topic(broker: LocalBroker, application: str) -> str:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(application, 1, 1)])
    finally:
        await admin.close()
    return application


def producer(proxy: FaultProxy, transactional_id: str, **options: int) -> AIOKafkaProducer:
    return AIOKafkaProducer(
        bootstrap_servers=proxy.bootstrap,
        transactional_id=transactional_id,
        client_id="writer",
        **{"request_timeout_ms": 1500, "retry_backoff_ms": 5, **options},
    )


async def committed(broker: LocalBroker, topic: str) -> list[bytes | None]:
    partition = TopicPartition(topic, 0)
    async with AIOKafkaConsumer(
        bootstrap_servers=broker.bootstrap, isolation_level="read_committed"
    ) as consumer:
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        end = (await consumer.end_offsets([partition]))[partition]
        values: list[bytes | None] = []
        while await consumer.position(partition) < end:
            batch = await consumer.getmany(partition, timeout_ms=200)
            values += [record.value for record in batch.get(partition, [])]
        return values


async def test_a_client_sends_every_request_through_the_proxy(
    broker: LocalBroker, proxy: FaultProxy, topic: str
) -> None:
    async with producer(proxy, topic) as sender, sender.transaction():
        await sender.send_and_wait(topic, b"one", partition=0)
    assert proxy.count(Api.PRODUCE) >= 1
    assert proxy.count(Api.END_TXN, client_id="writer") >= 1
    assert proxy.count(Api.END_TXN, client_id="somebody-else") == 0
    assert await committed(broker, topic) == [b"one"]


# Why the journal wraps its client: left alone, the client hides each of these from the caller.
@pytest.mark.parametrize("api", [Api.END_TXN, Api.ADD_PARTITIONS_TO_TXN])
@pytest.mark.parametrize("action", [Action.LOSE_RESPONSE, Action.RESET_AFTER, Action.RESET_BEFORE])
async def test_a_bare_client_sends_again_and_reports_success(
    broker: LocalBroker, proxy: FaultProxy, topic: str, api: Api, action: Action
) -> None:
    fault = proxy.inject(api, action)
    async with producer(proxy, topic) as sender:
        await sender.begin_transaction()
        await sender.send_and_wait(topic, b"once", partition=0)
        await sender.commit_transaction()
    fault.wait()
    # More than twice when the broker is still busy with the first (CONCURRENT_TRANSACTIONS).
    assert proxy.count(api) >= 2
    assert await committed(broker, topic) == [b"once"]


async def test_a_lost_produce_response_does_not_double_the_record(
    broker: LocalBroker, proxy: FaultProxy, topic: str
) -> None:
    fault = proxy.inject(Api.PRODUCE, Action.LOSE_RESPONSE)
    async with producer(proxy, topic) as sender, sender.transaction():
        await sender.send_and_wait(topic, b"once", partition=0)
    fault.wait()
    assert proxy.count(Api.PRODUCE) >= 2
    assert await committed(broker, topic) == [b"once"]


async def test_the_nth_request_is_struck_and_no_other(
    broker: LocalBroker, proxy: FaultProxy, topic: str
) -> None:
    fault = proxy.inject(Api.END_TXN, Action.RESET_AFTER, nth=2)
    async with producer(proxy, topic) as sender:
        for number in (1, 2, 3):
            before = proxy.count(Api.END_TXN)
            async with sender.transaction():
                await sender.send_and_wait(topic, b"%d" % number, partition=0)
            again = proxy.count(Api.END_TXN) - before > 1
            assert (again, fault.struck.is_set()) == (number == 2, number >= 2)
    assert await committed(broker, topic) == [b"1", b"2", b"3"]


async def test_a_delayed_response_arrives(
    broker: LocalBroker, proxy: FaultProxy, topic: str
) -> None:
    fault = proxy.inject(Api.END_TXN, Action.DELAY_RESPONSE, seconds=0.3)
    async with producer(proxy, topic, request_timeout_ms=20_000) as sender, sender.transaction():
        await sender.send_and_wait(topic, b"slow", partition=0)
    assert fault.struck.is_set()
    assert proxy.count(Api.END_TXN) == 1
    assert await committed(broker, topic) == [b"slow"]


async def test_a_late_commit_of_a_fenced_owner_is_refused(
    broker: LocalBroker, proxy: FaultProxy, topic: str
) -> None:
    async with producer(proxy, topic) as first, first.transaction():
        await first.send_and_wait(topic, b"first", partition=0)
    async with producer(proxy, topic) as second:
        await second.begin_transaction()
        await second.send_and_wait(topic, b"second", partition=0)
        answer = await asyncio.to_thread(proxy.resend, Api.END_TXN)
        _throttle, error = struct.unpack(">ih", answer)
        assert error in {INVALID_PRODUCER_EPOCH, PRODUCER_FENCED}
        assert await committed(broker, topic) == [b"first"]
        await second.commit_transaction()
    assert await committed(broker, topic) == [b"first", b"second"]


async def test_a_late_commit_is_done_by_the_broker(
    broker: LocalBroker, proxy: FaultProxy, topic: str
) -> None:
    # The client retries slowly, so the delayed request makes the record visible.
    async with producer(proxy, topic, retry_backoff_ms=3000) as sender:
        await sender.begin_transaction()
        await sender.send_and_wait(topic, b"late", partition=0)
        fault = proxy.inject(Api.END_TXN, Action.FORWARD_LATE, seconds=0.2)
        commit = asyncio.create_task(sender.commit_transaction())
        await asyncio.to_thread(fault.wait)
        assert await committed_in_the_end(broker, topic, 1) == [b"late"]
        await commit


async def committed_in_the_end(broker: LocalBroker, topic: str, number: int) -> list[bytes | None]:
    # The answer to EndTxn precedes the markers that committed readers wait for.
    while len(values := await committed(broker, topic)) < number:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    return values


async def test_a_client_resumes_after_a_broker_outage(
    broker: LocalBroker, proxy: FaultProxy, topic: str
) -> None:
    async with producer(proxy, topic, request_timeout_ms=20_000) as sender:
        await sender.partitions_for(topic)
        await sender.begin_transaction()
        with proxy.away():
            future = await sender.send(topic, b"patient", partition=0)
            await asyncio.sleep(0.5)
            assert not future.done()
        await future
        await sender.commit_transaction()
    assert await committed(broker, topic) == [b"patient"]


async def test_a_client_cannot_start_during_a_broker_outage(proxy: FaultProxy, topic: str) -> None:
    sender = producer(proxy, topic)
    with proxy.away(), pytest.raises(KafkaError):
        await sender.start()
    await sender.stop()


async def test_stalled_data_arrives_late(
    broker: LocalBroker, proxy: FaultProxy, topic: str
) -> None:
    async with producer(proxy, topic, request_timeout_ms=20_000) as sender:
        await sender.partitions_for(topic)
        await sender.begin_transaction()
        with proxy.stalled():
            future = await sender.send(topic, b"held", partition=0)
            await asyncio.sleep(0.5)
            assert not future.done()
        await future
        await sender.commit_transaction()
    assert await committed(broker, topic) == [b"held"]
