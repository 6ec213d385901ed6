"""The relay sends each alert of a log, in order, whatever happens between the log and the topic."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from accountant.partition.operate import accept_rollback
from accountant.records import decode_decision
from accountant.records.operator_records import Rollback
from accountant.times import from_iso
from accountant.views.alerts import alerts_of
from accountant.views.datasets import Alert, decode_alert
from streams.alerts.alert_scan import AlertScan
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
        self.before = 0  # alerts on the topic before the relay

    def topic(self, name: str) -> str:
        return self.deployment.topics.of(name)

    async def create(self, *topics: str) -> None:
        async with admin_of(self.deployment.cluster) as admin:
            await create_missing(admin, self.deployment, topics or TOPICS)

    async def create_again(self, *topics: str) -> None:
        names = [self.topic(each) for each in topics]
        for future in self.admin.delete_topics(names).values():
            await asyncio.to_thread(future.result)
        # While the broker's metadata still have a topic, none is missing, and none would be made.
        await until(lambda: not set(names) & set(self.admin.list_topics().topics), "they are gone")
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

    async def limit_records(self, size: int) -> None:
        """Set how large a batch the topic of alerts takes."""
        entry = ConfigEntry(
            "max.message.bytes",
            str(size),
            incremental_operation=AlterConfigOpType.SET,
        )
        resource = ConfigResource(
            ConfigResource.Type.TOPIC, self.topic("alerts"), incremental_configs=[entry]
        )
        (future,) = self.admin.incremental_alter_configs([resource]).values()
        await asyncio.to_thread(future.result)

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

    async def relay(self, world: World) -> list[Alert]:
        """Relay until the topic has a log's last alert, and this is committed; return them all.

        So a test sees what is missing before the last one, instead of a wait in vain.
        """
        last = ids_of(world)[-1]
        async with self.relaying() as running:
            await until(
                lambda: running.done() or last in ids(self.sent()[self.before :]), "the last alert"
            )
            await until(lambda: running.done() or self.committed() >= self.end(), "committed")
            assert not running.done(), "the relay goes on"
        found = await asyncio.to_thread(self.sent)
        self.before = len(found)
        return found

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


def ids_of(world: World) -> list[str]:
    """Return the ids of a log's alerts, in its order."""
    return ids(each for value in world.log for each in alerts_of(decode_decision(value)))


def ids(found: Iterable[Alert]) -> list[str]:
    return [each.alert_id for each in found]


def numbers(found: Iterable[Alert]) -> list[int]:
    """Return the numbers of the decisions that alerts name."""
    return [each.decision.number for each in found if each.decision is not None]


async def test_an_alert_names_its_decision_and_a_restart_repeats_none(log: Log) -> None:
    world = asked("0.1", "0.01", "0.25")
    await log.write(world.log)
    first = await log.relay(world)
    assert ids(first) == ids_of(world)
    assert numbers(first) == [2, 4, 4]
    asked("0.1", world=world)
    await log.write(world.log[5:])
    assert ids(await log.relay(world)) == ids_of(world), "each once, in the order of the log"
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
    await log.relay(world)
    asked("0.1", "0.1", world=world)
    await log.write(world.log[3:])
    async with log.relaying(Killed) as running:
        with pytest.raises(_KilledError):
            await asyncio.wait_for(running, PATIENCE_S)
    asked("0.1", world=world)
    await log.write(world.log[5:])
    found, wanted = await log.relay(world), ids_of(world)
    assert ids(found) == [*wanted[:3], *wanted[1:]]
    assert found[1:3] == found[3:5], "the same alerts"


async def test_alerts_that_the_topic_does_not_take_are_not_counted_as_sent(log: Log) -> None:
    world = asked("0.1", "0.1")
    await log.write(world.log)
    await log.limit_records(100)
    async with log.relaying():
        await until(lambda: log.counts.of("topic", "failed") >= 2, "tried")
        assert log.counts.waiting["topic"]() == 2
        assert log.committed() < log.end()
        await log.limit_records(1_048_588)
        await until(lambda: len(log.sent()) == 2, "sent at last")
    assert ids(log.sent()) == ids_of(world)
    assert log.counts.of("topic", "delivered") == 2


@pytest.mark.parametrize("half", [False, True], ids=["whole", "half"])
async def test_without_its_offset_the_relay_starts_where_the_topic_ends(
    log: Log, half: bool
) -> None:
    world = asked("0.1", "0.01")
    await log.write(world.log)
    await log.relay(world)
    asked("0.25", "0.1", world=world)
    if half:
        # Killed while it sent the two alerts of the next decision.
        async with AlertTopicWriter(log.deployment) as writer:
            (first, _) = AlertScan(0, 0).take(world.log[4])
            await writer.append(0, [first])
    await log.forget_offset()
    await log.write(world.log[4:])
    assert ids(await log.relay(world)) == ids_of(world), "none is lost, none repeated"


@pytest.mark.parametrize("offset_stays", [False, True])
async def test_an_older_copy_of_the_log_is_relayed_from_the_fork(
    log: Log, offset_stays: bool
) -> None:
    lost, copy = asked("0.1", "0.01", "0.01", "0.1", "0.1"), asked("0.1", "0.01")
    await log.write(lost.log)
    before = await log.relay(lost)
    assert numbers(before) == [2, 5, 6]
    await log.create_again("decisions")
    rollback = Rollback(branch=1, first=4, last=6, head="", key="", signature="")
    copy.commit()
    copy.took(accept_rollback(copy.draft, copy.now, "a test", rollback))
    asked("0.25", "0.01", "0.1", world=copy)
    await log.write(copy.log)
    if offset_stays:
        await log.forget_offset()  # nobody may commit for a member
        cursor = RelayCursor(number=6, head="sha256:lost", offset=6, written=0)
        await commit(log, 7, cursor)
    after = (await log.relay(copy))[len(before) :]
    assert ids(after) == ids_of(copy)[1:], "those after the last common decision"
    assert numbers(after) == [5, 5, 7]
    assert {each.decision.branch for each in after if each.decision} == {1}


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
    await log.relay(world)
    await log.create_again("alerts")
    log.before = 0
    asked("0.1", world=world)
    await log.write(world.log[4:])
    assert ids(await log.relay(world)) == ids_of(world)


async def test_a_decision_that_cannot_be_read_silences_no_later_alert(log: Log) -> None:
    world = asked("0.1", "0.1", "0.1", "0.1", "0.1")
    junk = b'{"type":"decision","version":2,"crossed":["0.1"]}'
    odd = batch([Raw(b"k", junk, headers=[(b"\xff", b"")])])
    await log.write(world.log[:3])
    await log.write([b"junk", world.log[3], junk])
    await append(log.bootstrap, log.topic("decisions"), 0, odd)
    await log.write(world.log[4:-1])
    async with log.relaying() as running:
        await until(
            lambda: running.done() or log.counts.of("topic", "given_up") >= 3, "each is counted"
        )
        assert not running.done(), "the relay goes on"
        await log.write(world.log[-1:])
        await until(lambda: ids_of(world)[-1] in ids(log.sent()), "the last alert")
    assert ids(log.sent()) == ids_of(world)
    asked("0.01", world=world)
    await log.write(world.log[-1:])
    world.amend(alert_at=["0.05"])
    await log.write(world.log[-1:])
    assert ids(await log.relay(world)) == ids_of(world), "and a restart repeats none"


async def test_a_decision_of_a_newer_version_waits_for_a_newer_worker(log: Log) -> None:
    world = asked("0.1", "0.1", "0.1")
    newer = world.log[3].replace(b'"version":2', b'"version":3', 1)
    await log.write([*world.log[:3], newer, world.log[4]])
    async with log.relaying():
        await until(lambda: log.committed() >= 3, "committed up to it")
    assert log.committed() == 3
    assert ids(log.sent()) == ids_of(world)[:1]


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
        deciding = asyncio.create_task(decide())
        async with log.relaying(name="w2"):
            await deciding
            await until(
                lambda: all(ids_of(worlds[i])[-1] in ids(log.sent(i)) for i in worlds), "all sent"
            )
    for number, world in worlds.items():
        assert list(dict.fromkeys(ids(log.sent(number)))) == ids_of(world)
