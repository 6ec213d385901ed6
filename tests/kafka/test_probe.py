"""Looks at the ends of logs. Of one broker that hangs: tests/faults/test_kafka_cluster.py."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition

from streams.errors import JournalFault
from streams.kafka.deployment import Deployment, TopicNames
from streams.kafka.log import topics
from streams.kafka.wire.probe import LogEnds, Probe
from streams.kafka.wire.security import Cluster
from streams.testing import LocalBroker
from tests.patience import PATIENCE_S


async def topics_of(broker: LocalBroker, application: str) -> Deployment:
    where = Deployment(
        bootstrap=broker.bootstrap,
        application=application,
        topics=TopicNames(f"{application}."),
        partitions=2,
    )
    await topics.create(where)
    return where


async def complete_look(probe: Probe, *tps: TopicPartition) -> LogEnds:
    """Return the first complete result; a broker just started may be slow."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with contextlib.suppress(JournalFault):
                look = await probe.look(tps)
                if look.is_done():
                    return look


async def append(where: Deployment, count: int) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=where.bootstrap)
    await producer.start()
    for _ in range(count):
        await producer.send_and_wait(where.topics.requests, b"{}", partition=1)
    await producer.stop()


async def test_a_probe_reports_the_new_end_of_a_log_that_grows(
    broker: LocalBroker, application: str
) -> None:
    where = await topics_of(broker, application)
    tps = [TopicPartition(where.topics.requests, number) for number in range(2)]
    probe = Probe(where.cluster, [where.topics.requests])
    for count in (0, 3):
        await append(where, count)
        look = await complete_look(probe, *tps)
        assert look.ends == {tps[0]: 0, tps[1]: count}
        assert look.silent == {}
        assert not look.misses_topics
    probe.close()


async def test_a_probe_without_logs_asks_any_broker(
    own_broker: LocalBroker,
) -> None:
    probe = Probe(Cluster(own_broker.bootstrap), ["requests"])
    for _ in range(2):
        assert (await complete_look(probe)).reached
    await asyncio.to_thread(own_broker.kill)
    with pytest.raises(JournalFault):
        await probe.look([])
    probe.close()


async def test_missing_logs_are_reported_with_existing_ones(
    broker: LocalBroker, application: str
) -> None:
    where = await topics_of(broker, application)
    here, gone = (
        TopicPartition(name, 0) for name in (where.topics.state, f"{application}.nothing")
    )
    probe = Probe(where.cluster, [here.topic, gone.topic])
    await complete_look(probe, here)
    look = await probe.look([here, gone])
    assert look.ends.keys() == {here}
    assert look.silent.keys() == {gone}
    assert look.misses_topics
    probe.close()


async def test_a_dead_connection_is_not_used_again(broker: LocalBroker, application: str) -> None:
    where = await topics_of(broker, application)
    tp = TopicPartition(where.topics.decisions, 0)
    probe = Probe(where.cluster, [tp.topic])
    await complete_look(probe, tp)
    assert probe._brokers is not None
    for connection in probe._brokers._client._conns.values():
        connection._writer.write = lambda _: None  # drops everything that is sent
    assert (await probe.look([tp])).ends == {tp: 2}
    probe.close()


async def test_a_broker_that_hangs_is_found_again(
    own_broker: LocalBroker, application: str
) -> None:
    where = await topics_of(own_broker, application)
    tp = TopicPartition(where.topics.decisions, 0)
    probe = Probe(where.cluster, [tp.topic])
    assert (await complete_look(probe, tp)).ends == {tp: 2}  # the genesis and its marker
    own_broker.pause()
    for _ in range(2):
        with pytest.raises(JournalFault):
            await probe.look([tp])
    own_broker.resume()
    await asyncio.to_thread(own_broker.wait_until_ready)
    assert (await complete_look(probe, tp)).ends == {tp: 2}
    probe.close()
