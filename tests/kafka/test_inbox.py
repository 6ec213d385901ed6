"""Inputs read ahead, on a real broker."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka import errors as kafka

from streams.kafka.deployment import Deployment, TopicNames
from streams.kafka.log import topics
from streams.kafka.log.inbox import Inbox
from streams.kafka.log.journal import KafkaJournal
from streams.testing import LocalBroker
from tests.kafka.raw_batches import Raw, append, batch
from tests.patience import PATIENCE_S


@contextlib.asynccontextmanager
async def inputs(
    broker: LocalBroker, name: str, *, damaged: int | None = None
) -> AsyncIterator[tuple[Inbox, AIOKafkaProducer, list[TopicPartition]]]:
    """Yield an inbox on two partitions of an empty topic, both sought to 0, and a producer."""
    where = Deployment(
        bootstrap=broker.bootstrap, application=name, topics=TopicNames(f"{name}."), partitions=2
    )
    await topics.create(where)
    tps = [TopicPartition(where.topics.requests, i) for i in range(2)]
    consumer = AIOKafkaConsumer(
        bootstrap_servers=broker.bootstrap, auto_offset_reset="none", enable_auto_commit=False
    )
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap)
    await consumer.start()
    await producer.start()
    consumer.assign(tps)
    inbox = Inbox(consumer if damaged is None else DamagedConsumer(consumer, tps[damaged]))
    reading = asyncio.create_task(inbox.run())
    try:
        for tp in tps:
            inbox.seek(tp, 0)
        yield inbox, producer, tps
    finally:
        reading.cancel()
        await consumer.stop()
        await producer.stop()


async def send(producer: AIOKafkaProducer, tp: TopicPartition, values: list[bytes]) -> None:
    for value in values:
        await producer.send(tp.topic, value, partition=tp.partition)
    await producer.flush()


async def take(inbox: Inbox, tp: TopicPartition, count: int) -> list[bytes]:
    values: list[bytes] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(values) < count:
            got = await inbox.getmany(tp, timeout_ms=1_000, max_records=count - len(values))
            values += [record.value for record in got.get(tp, [])]
    return values


async def test_a_partition_with_unread_records_delays_no_other(
    broker: LocalBroker, application: str
) -> None:
    async with inputs(broker, application) as (inbox, producer, (busy, other)):
        await send(producer, busy, [b"%d" % i for i in range(6_000)])
        for turn in range(3):
            sent = [b"%d.%d" % (turn, i) for i in range(3)]
            await send(producer, other, sent)
            assert await take(inbox, other, 3) == sent
        assert await take(inbox, busy, 6_000) == [b"%d" % i for i in range(6_000)]
        assert await inbox.position(busy) == 6_000


async def test_a_seek_drops_waiting_records_and_the_position_follows_taken_ones(
    broker: LocalBroker, application: str
) -> None:
    async with inputs(broker, application) as (inbox, producer, (tp, _)):
        await send(producer, tp, [b"%d" % i for i in range(10)])
        assert await take(inbox, tp, 4) == [b"0", b"1", b"2", b"3"]
        assert await inbox.position(tp) == 4
        inbox.seek(tp, 2)
        assert await take(inbox, tp, 2) == [b"2", b"3"]
        inbox.forget({tp})
        assert await inbox.getmany(tp, timeout_ms=50) == {}


async def test_an_error_reaches_its_own_partition(broker: LocalBroker, application: str) -> None:
    async with inputs(broker, application) as (inbox, producer, (beyond, other)):
        await send(producer, other, [b"fine"])
        inbox.seek(beyond, 1_000)
        with pytest.raises(kafka.OffsetOutOfRangeError):
            await take(inbox, beyond, 1)
        assert await take(inbox, other, 1) == [b"fine"]


class DamagedConsumer:
    """A consumer for which one partition is damaged, in every call."""

    def __init__(self, consumer: AIOKafkaConsumer, damaged: TopicPartition) -> None:
        self._consumer = consumer
        self._damaged = damaged

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    async def getmany(self, *tps: TopicPartition, **options: int) -> Any:
        got = await self._consumer.getmany(*tps, **options)
        if self._damaged in tps:
            raise kafka.CorruptRecordException("Invalid CRC")
        return got


async def test_an_error_without_a_partition_ends_up_with_the_faulty_one(
    broker: LocalBroker, application: str
) -> None:
    async with inputs(broker, application, damaged=1) as (inbox, producer, (sound, damaged)):
        await send(producer, sound, [b"%d" % i for i in range(20)])
        values: list[bytes] = []
        failures = 0
        async with asyncio.timeout(PATIENCE_S):
            while len(values) < 20:
                try:
                    values += await take(inbox, sound, 1)
                except kafka.CorruptRecordException:
                    failures += 1
                    inbox.seek(sound, len(values))
                with contextlib.suppress(kafka.CorruptRecordException):
                    await inbox.getmany(damaged, timeout_ms=20)
                inbox.seek(damaged, 0)
        assert values == [b"%d" % i for i in range(20)]
        assert failures <= 1


async def test_a_batch_that_the_client_cannot_read_is_reported_at_its_second_failure(
    broker: LocalBroker, application: str
) -> None:
    async with inputs(broker, application, damaged=1) as (inbox, producer, (sound, damaged)):
        await send(producer, damaged, [b"read past the parser"])
        assert await take(inbox, damaged, 1) == [b"read past the parser"]
        with pytest.raises(kafka.CorruptRecordException):
            await take(inbox, damaged, 1)
        await send(producer, sound, [b"%d" % i for i in range(20)])
        assert await take(inbox, sound, 20) == [b"%d" % i for i in range(20)]


async def test_a_batch_damaged_on_disk_is_an_error_of_its_partition_and_never_skipped(
    own_broker: LocalBroker, application: str
) -> None:
    async with inputs(own_broker, application) as (inbox, producer, (sound, damaged)):
        await send(producer, damaged, [b"first"])
        assert await take(inbox, damaged, 1) == [b"first"]
        log = own_broker.directory / "data" / f"{damaged.topic}-1" / f"{0:020}.log"
        log.write_bytes(log.read_bytes().replace(b"first", b"worst"))
        await send(producer, damaged, [b"second"])
        for _ in range(3):
            inbox.seek(damaged, 0)
            with pytest.raises(kafka.CorruptRecordException, match="invalid CRC at offset 0"):
                await take(inbox, damaged, 1)
            await send(producer, sound, [b"fine"])
            assert await take(inbox, sound, 1) == [b"fine"]


async def test_a_batch_with_false_offsets_hides_no_other(
    broker: LocalBroker, application: str
) -> None:
    async with inputs(broker, application) as (inbox, producer, (tp, _)):
        # A reader that continues at offset 3 sees them as the three of the next batch, too.
        liars = [Raw(None, b"liar %d" % i, offset=i + 3) for i in range(6)]
        await append(broker.bootstrap, tp.topic, 0, batch(liars))
        await send(producer, tp, [b"6", b"7", b"8"])
        truth = [b"liar %d" % i for i in range(6)] + [b"6", b"7", b"8"]
        for start in range(9):
            inbox.seek(tp, start)
            assert await take(inbox, tp, 9 - start) == truth[start:]
            assert await inbox.position(tp) == 9


async def test_gaps_left_by_transaction_markers_delay_no_record(
    broker: LocalBroker, application: str
) -> None:
    async with inputs(broker, application) as (inbox, producer, (tp, _)):
        writer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=application)
        async with writer:
            for i in range(30):
                async with writer.transaction():
                    await writer.send_and_wait(tp.topic, b"%d" % i, partition=tp.partition)
                assert await take(inbox, tp, 1) == [b"%d" % i]
        await send(producer, tp, [b"30"])
        assert await take(inbox, tp, 1) == [b"30"]
        inbox.seek(tp, 0)
        assert await take(inbox, tp, 31) == [b"%d" % i for i in range(31)]


async def test_a_new_lookup_of_leaders_does_not_wait_for_a_missing_answer(
    broker: LocalBroker, application: str
) -> None:
    async with inputs(broker, application) as (inbox, _, _):
        client = inbox._consumer._client
        ask, asked = client.force_metadata_update, list[str]()

        def note() -> Any:
            asked.append("who leads")
            return ask()

        client.force_metadata_update = note
        await inbox.locate()
        assert asked
        client.force_metadata_update = asyncio.get_running_loop().create_future  # no answer
        async with asyncio.timeout(PATIENCE_S):
            await inbox.locate()
        client.force_metadata_update = ask


async def test_a_journal_looks_up_leaders_before_it_resumes(
    broker: LocalBroker, application: str
) -> None:
    where = Deployment(
        bootstrap=broker.bootstrap,
        application=application,
        topics=TopicNames(f"{application}."),
        partitions=1,
    )
    await topics.create(where)
    done = list[str]()

    class Noting:
        async def locate(self) -> None:
            done.append("locate")

        def seek(self, partition: TopicPartition, offset: int) -> None:
            done.append("seek")

        def resume(self, *partitions: TopicPartition) -> None:
            done.append("resume")

        async def getmany(self, *partitions: TopicPartition, **_: Any) -> Any:
            raise AssertionError("nothing is read here")

    journal = KafkaJournal(where.cluster, application, where.topics, 0, Noting())
    await journal.own()
    await journal.seek({"requests": 0, "admin": 0})
    await journal.drop()
    assert done == ["locate", "seek", "resume", "seek", "resume"]
