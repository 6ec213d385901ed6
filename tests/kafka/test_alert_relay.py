"""The relay sends each alert of a log, in order, whatever happens between the log and the topic."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import confluent_kafka
import msgspec
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from confluent_kafka.admin import AdminClient

from accountant.partition.operate import accept_rollback
from accountant.records import decode_decision
from accountant.records.operator_records import Rollback
from accountant.times import from_iso
from accountant.views.alerts import alerts_of
from accountant.views.datasets import Alert, AlertOrigin, decode_alert
from streams.alerts.alerts_topic import AlertTopicWriter
from streams.alerts.delivery_metrics import AlertDeliveryMetrics
from streams.alerts.relay_start import RelayCursor, encode_cursor
from streams.alerts.topic_relay import AlertRelay
from streams.kafka.deployment import Deployment, TopicNames
from streams.kafka.log.topics import create_missing
from streams.kafka.wire.admin import admin_of
from streams.testing import LocalBroker
from tests.accountant.world import START, World, opened
from tests.faults import oracle
from tests.kafka.raw_batches import Raw, append, batch
from tests.patience import PATIENCE_S

TOPICS = ("decisions", "alerts")
BASIC = {"filter": "basic", "epsilon": "1", "alert_at": ["0.1", "0.2", "0.3", "0.4", "0.5"]}
SHARDS = 4


class Log:
    """A log of decisions on a broker, without a worker, and the alerts that were sent."""

    def __init__(self, broker: LocalBroker, application: str) -> None:
        self.bootstrap = broker.bootstrap
        self.deployment = Deployment(
            bootstrap=broker.bootstrap,
            application=application,
            topics=TopicNames(f"{application}."),
            partitions=SHARDS,
        )
        self.admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        self.group = f"{application}.alert-relay"
        self.counts = AlertDeliveryMetrics()

    def topic(self, name: str) -> str:
        return self.deployment.topics.of(name)

    async def create(self, *topics: str) -> None:
        async with admin_of(self.deployment.cluster) as admin:
            await create_missing(admin, self.deployment, topics or TOPICS)

    async def create_again(self, *topics: str) -> None:
        names = [self.topic(each) for each in topics]
        for future in self.admin.delete_topics(names).values():
            await asyncio.to_thread(future.result)
        for _ in range(int(PATIENCE_S / 0.05)):
            with contextlib.suppress(Exception):  # the broker still deletes
                await self.create(*topics)
                return
            await asyncio.sleep(0.05)
        await self.create(*topics)

    async def write(self, values: Iterable[bytes], partition: int = 0) -> None:
        """Append decisions at their own times."""
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap, acks="all")
        await producer.start()
        try:
            at = START
            for value in values:
                with contextlib.suppress(ValueError, KeyError):
                    at = from_iso(json.loads(value)["decided_at"])
                await producer.send_and_wait(
                    self.topic("decisions"), value, partition=partition, timestamp_ms=at
                )
        finally:
            await producer.stop()

    def sent(self, partition: int = 0) -> list[Alert]:
        """Return the alerts on the topic, in its order, repeats included."""
        records = oracle.read(self.bootstrap, self.topic("alerts"), SHARDS)[partition]
        found = [decode_alert(record.value or b"") for record in records]
        assert [record.key for record in records] == [each.alert_id.encode() for each in found]
        return found

    def committed(self) -> int:
        """Return the offset that the group has committed; below 0 for none."""
        group = {"bootstrap.servers": self.bootstrap, "group.id": self.group}
        consumer = confluent_kafka.Consumer(group)
        try:
            asked = [confluent_kafka.TopicPartition(self.topic("decisions"), 0)]
            (found,) = consumer.committed(asked, timeout=PATIENCE_S)
        finally:
            consumer.close()
        return int(found.offset)

    async def forget_offset(self) -> None:
        """Remove the group, as a broker does once it has had no member for a week."""
        for _ in range(int(PATIENCE_S / 0.2)):
            (future,) = self.admin.delete_consumer_groups([self.group]).values()
            try:
                await asyncio.to_thread(future.result)
            except confluent_kafka.KafkaException:  # it still has a member
                await asyncio.sleep(0.2)
            else:
                return
        raise AssertionError("the group is still there")

    @contextlib.asynccontextmanager
    async def relaying(
        self, kind: type[AlertRelay] = AlertRelay, name: str = "w1"
    ) -> AsyncIterator[asyncio.Task[None]]:
        relay = kind(self.deployment, self.counts, instance_id=name)
        running = asyncio.create_task(relay.run())
        try:
            yield running
        finally:
            running.cancel()
            await asyncio.wait([running])

    async def relay(self, count: int) -> list[Alert]:
        """Relay until the topic has this many alerts, and all is committed; return them."""
        async with self.relaying():
            await until(lambda: len(self.sent()) >= count, f"{count} alerts")
            await until(lambda: self.committed() >= self.end(), "committed")
        return await asyncio.to_thread(self.sent)

    def end(self) -> int:
        """Return the offset after the last decision that has alerts."""
        records = oracle.read(self.bootstrap, self.topic("decisions"), SHARDS)[0]
        return max(each.offset + 1 for each in records if b'"crossed":[' in (each.value or b""))


async def until(condition: Any, what: str) -> None:
    for _ in range(int(PATIENCE_S / 0.1)):
        if await asyncio.to_thread(condition):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"after {PATIENCE_S:g} s still not: {what}")


@pytest.fixture
async def log(broker: LocalBroker, application: str) -> Log:
    made = Log(broker, application)
    await made.create()
    return made


def asked(*costs: str, world: World | None = None) -> World:
    """Return a log with a request a second; decision 2 is the first of them."""
    world = world or opened(**BASIC)
    for cost in costs:
        world.now += 1000
        world.ask(f"pure:{cost}")
    return world


def alerts(values: Sequence[bytes]) -> list[str]:
    """Return the ids of a log's alerts, in its order."""
    return [each.alert_id for value in values for each in alerts_of(decode_decision(value))]


def ids(found: Iterable[Alert]) -> list[str]:
    return [each.alert_id for each in found]


async def test_an_alert_names_its_decision_and_a_restart_repeats_none(log: Log) -> None:
    world = asked("0.1", "0.01", "0.25")
    await log.write(world.log)
    first = await log.relay(3)
    assert ids(first) == alerts(world.log)
    assert [(each.decision.number, each.decision.branch) for each in first if each.decision] == [
        (2, 0),
        (4, 0),
        (4, 0),
    ]
    asked("0.1", world=world)
    await log.write(world.log[5:])
    assert ids(await log.relay(4)) == alerts(world.log), "each once, in the order of the log"
    assert log.counts.of("topic", "delivered") == 4


class _KilledError(BaseException):
    """What ends a process at once."""


class Killed(AlertRelay):
    """A relay that is killed after it has sent alerts, and before it commits the offset."""

    async def _commit(self, *_: Any) -> None:
        raise _KilledError


async def test_alerts_that_were_sent_before_a_kill_are_repeated_with_their_ids(log: Log) -> None:
    world = asked("0.1")
    await log.write(world.log)
    await log.relay(1)
    asked("0.1", "0.1", world=world)
    await log.write(world.log[3:])
    async with log.relaying(Killed) as running:
        with pytest.raises(_KilledError):
            await asyncio.wait_for(running, PATIENCE_S)
    asked("0.1", world=world)
    await log.write(world.log[5:])
    found = await log.relay(6)
    wanted = alerts(world.log)
    assert ids(found) == [*wanted[:3], *wanted[1:]]
    assert found[1:3] == found[3:5], "the same alerts"


@pytest.mark.parametrize("half", [False, True], ids=["whole", "half"])
async def test_without_its_offset_the_relay_starts_where_the_topic_ends(
    log: Log, half: bool
) -> None:
    world = asked("0.1", "0.01")
    await log.write(world.log)
    await log.relay(1)
    asked("0.1", "0.25", world=world)
    if half:
        # Killed while it sent the two alerts of the last decision.
        some = [each for value in world.log[4:] for each in alerts_of(decode_decision(value))]
        async with AlertTopicWriter(log.deployment) as writer:
            await writer.append(0, [named(some[0], 4), named(some[1], 5)])
    await log.forget_offset()
    await log.write(world.log[4:])
    assert ids(await log.relay(4)) == alerts(world.log), "none is lost, none repeated"


def named(alert: Alert, number: int) -> Alert:
    origin = AlertOrigin(partition=0, number=number, branch=0)
    return msgspec.structs.replace(alert, decision=origin)


@pytest.mark.parametrize("offset_stays", [False, True])
async def test_an_older_copy_of_the_log_is_relayed_from_the_fork(
    log: Log, offset_stays: bool
) -> None:
    world = asked("0.1")
    copy = asked("0.1", "0.01")
    asked("0.1", "0.1", world=world)
    await log.write(world.log)
    before = await log.relay(3)
    lost = log.end()
    await log.create_again("decisions")
    lines = Rollback(branch=1, first=4, last=4, head="", key="", signature="")
    copy.commit()
    copy.took(accept_rollback(copy.draft, copy.now, "a test", lines))
    asked("0.01", "0.1", world=copy)
    await log.write(copy.log)
    if offset_stays:
        await log.forget_offset()  # nobody may commit for a member
        await commit(
            log, min(lost, log.end()), RelayCursor(number=4, head="sha256:lost", written=2)
        )
    after = (await log.relay(4))[3:]
    assert before == log.sent()[:3]
    assert [(each.alert_id, each.decision) for each in after] == [
        ("census/1/0.2", after[0].decision)
    ]
    assert after[0].decision is not None
    assert (after[0].decision.number, after[0].decision.branch) == (6, 1)


async def commit(log: Log, offset: int, cursor: RelayCursor) -> None:
    """Commit as the relay of another log has."""
    consumer = AIOKafkaConsumer(bootstrap_servers=log.bootstrap, group_id=log.group)
    tp = TopicPartition(log.topic("decisions"), 0)
    await consumer.start()
    try:
        consumer.assign([tp])
        await consumer.commit({tp: (offset, encode_cursor(cursor).decode())})
    finally:
        await consumer.stop()


async def test_a_topic_of_alerts_that_was_created_again_gets_all_of_them(log: Log) -> None:
    world = asked("0.1", "0.1")
    await log.write(world.log)
    await log.relay(2)
    await log.create_again("alerts")
    asked("0.1", world=world)
    await log.write(world.log[4:])
    assert ids(await log.relay(3)) == alerts(world.log)


async def test_a_decision_that_cannot_be_read_silences_no_later_alert(log: Log) -> None:
    world = asked("0.1", "0.1", "0.1", "0.1")
    junk = b'{"type":"decision","version":2,"crossed":["0.1"]}'
    odd = batch([Raw(b"k", junk, headers=[(b"\xff", b"")])])
    await log.write(world.log[:3])
    await log.write([b"junk", world.log[3], junk])
    await append(log.bootstrap, log.topic("decisions"), 0, odd)
    await log.write(world.log[4:])
    found = await log.relay(4)
    assert ids(found) == alerts(world.log)
    assert log.counts.of("topic", "given_up") == 3, "each is counted"


async def test_a_decision_of_a_newer_version_waits_for_a_newer_worker(
    log: Log,
) -> None:
    world = asked("0.1", "0.1", "0.1")
    newer = world.log[3].replace(b'"version":2', b'"version":3', 1)
    await log.write([*world.log[:3], newer, world.log[4]])
    async with log.relaying():
        await until(lambda: len(log.sent()) == 1, "what came before it")
        await until(lambda: log.committed() == 3, "committed up to it")
    assert ids(log.sent()) == alerts(world.log)[:1]


async def test_while_partitions_move_each_datasets_alerts_keep_their_order(log: Log) -> None:
    worlds = {number: opened(**BASIC) for number in range(SHARDS)}
    for number, world in worlds.items():
        await log.write(world.log, number)

    async def decide() -> None:
        for _ in range(5):
            for number, world in worlds.items():
                asked("0.1", world=world)
                await log.write(world.log[-1:], number)

    async with log.relaying():
        await until(lambda: log.counts.waiting["topic"]() == 0, "it relays")
        deciding = asyncio.create_task(decide())
        async with log.relaying(name="w2"):
            await deciding
            await until(lambda: all(len(log.sent(i)) >= 5 for i in worlds), "all sent")
    for number, world in worlds.items():
        assert list(dict.fromkeys(ids(log.sent(number)))) == alerts(world.log)
