"""Topics or a log that are not as they must be: a refusal that names reason and command."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import replace

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from confluent_kafka import Producer

from streams.cli.printing.exit_codes import Exit
from streams.errors import Refused, Unavailable
from streams.kafka.log import topics
from streams.kafka.service.kafka_service import KafkaService
from streams.kafka.wire.reader import StableReader
from streams.kafka.wire.security import Cluster
from streams.testing import LocalBroker
from streams.worker.partitions import Worker
from tests.faults import oracle
from tests.faults.frames import Action, Api
from tests.faults.ledger import Ledger, is_ready, request, until, working
from tests.faults.operator import Operator
from tests.faults.proxy import FaultProxy
from tests.kafka.command import command
from tests.patience import PATIENCE_S

INVALID_TRANSACTION_TIMEOUT = 50
WRONG = [
    ("requests", "message.timestamp.type", "CreateTime"),
    ("requests", "cleanup.policy", "compact"),
    ("requests", "compression.type", "gzip"),
    ("requests", "max.message.bytes", "10485760"),
    ("admin", "message.timestamp.type", "CreateTime"),
    ("decisions", "cleanup.policy", "compact"),
    ("decisions", "retention.ms", "604800000"),
    ("decisions", "retention.bytes", "1000000"),
    ("decisions", "message.timestamp.type", "LogAppendTime"),
    ("decisions", "max.message.bytes", "1000"),
    ("state", "cleanup.policy", "delete"),
    ("state", "max.message.bytes", "1000"),
    ("requests", "retention.ms", "1000"),
    ("dead_letters", "max.message.bytes", "100"),
    ("alerts", "max.message.bytes", "100"),
]


def ledger_of(broker: LocalBroker, application: str) -> Ledger:
    return Ledger(broker.bootstrap, application, partitions=2)


async def refusal(ledger: Ledger) -> str:
    """Return why a worker refuses to start."""
    worker = Worker(ledger.deployment, instance_id="w1")
    await worker.start()
    try:
        with pytest.raises(Refused) as raised:
            await asyncio.wait_for(worker.wait_fatal(), PATIENCE_S)
    finally:
        await worker.stop()
    return str(raised.value)


async def until_refused(ledger: Ledger) -> None:
    """Return once the broker shows a setting that is wrong, which takes a moment."""
    async with asyncio.timeout(PATIENCE_S):
        with contextlib.suppress(Refused):
            while True:
                await topics.check(ledger.deployment)
                await asyncio.sleep(0.05)


async def test_a_start_on_wrong_settings_names_each_and_the_command(
    broker: LocalBroker, application: str
) -> None:
    async with ledger_of(broker, application) as ledger:
        for topic, name, value in WRONG:
            right = topics.SETTINGS[topic][name]
            Operator(ledger).alter(topic, name, value)
            await until_refused(ledger)
            why = await refusal(ledger)
            assert f"{ledger.topic(topic)}: {name} is {value}, must be {right}" in why
            assert (
                f"`kafka-configs.sh --bootstrap-server {broker.bootstrap} --alter "
                f"--topic {ledger.topic(topic)} --add-config {name}={right}`"
            ) in why
            with pytest.raises(Refused, match=name.replace(".", r"\.")):
                await topics.create(ledger.deployment)
            Operator(ledger).alter(topic, name, right)
        async with working(ledger):
            pass


async def test_wrong_topic_settings_stop_a_running_worker_until_they_are_corrected(
    broker: LocalBroker, application: str
) -> None:
    async with (
        ledger_of(broker, application) as ledger,
        working(ledger, check_every=1.0) as worker,
    ):
        await ledger.open("ds")
        await ledger.settle()
        Operator(ledger).alter("decisions", "retention.ms", "1000000000")
        await until(lambda: "retention.ms" in str(worker.status.readiness()), "noticed")
        await until(lambda: not worker.status.serving, "nothing served")
        place = await ledger.ask("ds")
        Operator(ledger).alter("decisions", "retention.ms", "-1")
        await until(lambda: is_ready(worker), "ready again")
        assert (await ledger.decision(place))["outcome"] == "granted"
        await ledger.judged()


async def test_missing_topics_name_the_command_that_creates_them(
    broker: LocalBroker, application: str
) -> None:
    ledger = ledger_of(broker, application)
    assert "Run `accountant topics create`" in await refusal(ledger)


async def test_a_short_transaction_limit_of_the_broker_names_its_setting(
    broker: LocalBroker, proxy: FaultProxy, application: str
) -> None:
    why = "the broker's transaction.max.timeout.ms is below 10000"
    ledger = Ledger(broker.bootstrap, application, via=proxy.bootstrap, partitions=1)

    def limit(client_id: str | None = None) -> None:
        # A broker's setting is fixed at its start, so this simulates the answer of such a broker.
        code = INVALID_TRANSACTION_TIMEOUT
        api, action = Api.INIT_PRODUCER_ID, Action.ANSWER_ERROR
        proxy.inject(api, action, code=code, client_id=client_id)

    limit()
    with pytest.raises(Refused, match=why):
        await topics.create(ledger.deployment)
    async with ledger:
        limit(client_id=f"{application}-0")  # that partition's writer
        async with working(ledger, ready=False, looks_again=()) as worker:
            await until(lambda: "halted" in str(worker.status.readiness()), "halted")
            (reason,) = worker.status.readiness().reasons
            assert why in reason
            assert "set it to 10000 or more on every broker" in reason
        async with working(ledger):
            await ledger.open("ds")
            assert (await ledger.decided(request("ds")))["outcome"] == "granted"


@pytest.mark.parametrize("topic", ["requests", "decisions"])
async def test_a_changed_partition_count_is_refused(
    broker: LocalBroker, application: str, topic: str
) -> None:
    async with ledger_of(broker, application) as ledger:
        Operator(ledger).grow(topic, 3)
        why = await refusal(ledger)
        assert f"{ledger.topic(topic)} has 3 partitions, the setting says 2" in why
        assert "ACCOUNTANT_PARTITIONS" in why


async def halted(ledger: Ledger) -> list[str]:
    """Return why partition 0 halts, while partition 1 serves."""
    async with working(ledger, ready=False) as worker:
        await until(lambda: "halted" in str(worker.status.readiness()), "halted")
        await until(lambda: worker.status.serving == {1}, "the other one serves")
        return list(worker.status.readiness().reasons)


async def test_another_genesis_halts_each_partition(broker: LocalBroker, application: str) -> None:
    async with ledger_of(broker, application) as ledger:
        ledger.deployment = replace(ledger.deployment, window_ms=1_800_000, skew_ms=1_000)
        async with working(ledger, ready=False) as worker:
            await until(
                lambda: str(worker.status.readiness()).count("the log began as") == 2, "halted"
            )
            for why in worker.status.readiness().reasons:
                assert "setting is 1800000: set ACCOUNTANT_WINDOW_MS=3600000" in why
                assert "setting is 1000: set ACCOUNTANT_SKEW_MS=300000" in why
                assert "audit" not in why  # which would pass


async def test_another_placement_halts_each_partition_and_refuses_readers(
    broker: LocalBroker, application: str
) -> None:
    ledger = Ledger(broker.bootstrap, application, partitions=2, placement="group")
    async with ledger:
        ledger.deployment = by_name = replace(ledger.deployment, placement="name")
        why = (
            "the log began as one with placement group, but the setting is name: "
            "set ACCOUNTANT_PLACEMENT=group"
        )
        async with working(ledger, ready=False) as worker:
            await until(lambda: str(worker.status.readiness()).count(why) == 2, "halted")
        with pytest.raises(Refused) as raised:
            await KafkaService.start(by_name)
        assert str(raised.value) == f"{ledger.topic('decisions')}: {why}"
        usage = await asyncio.to_thread(command, ledger, "usage", "survey")
        assert usage.returncode == Exit.OPERATOR
        assert why in usage.stderr
        ledger.deployment = replace(by_name, placement="group")
        async with working(ledger):
            pass


@pytest.mark.parametrize(
    ("name", "other"),
    [("application", "somebody"), ("window_ms", 60_000), ("skew_ms", 1), ("placement", "group")],
)
async def test_topics_are_not_ready_for_settings_other_than_their_genesis(
    broker: LocalBroker, application: str, name: str, other: object
) -> None:
    async with ledger_of(broker, application) as ledger:
        right = getattr(ledger.deployment, name)
        with pytest.raises(Refused) as raised:
            await topics.create(replace(ledger.deployment, **{name: other}))
        assert str(raised.value) == (
            f"{ledger.topic('decisions')}, partition 0: the log began as one with {name} {right}, "
            f"but the setting is {other}: set ACCOUNTANT_{name.upper()}={right}"
        )
        assert await topics.create(ledger.deployment) == []


async def test_an_open_transaction_is_reported_with_the_commands_to_find_and_abort_it(
    broker: LocalBroker, application: str
) -> None:
    async with ledger_of(broker, application) as ledger:
        place = TopicPartition(ledger.topic("decisions"), 1)
        foreign = AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap, transactional_id=f"{application}-foreign"
        )
        await foreign.start()
        try:
            async with foreign.transaction():
                await foreign.send_and_wait(place.topic, b"{}", partition=place.partition)
                with pytest.raises(Unavailable) as raised:
                    async with StableReader(Cluster(broker.bootstrap), [place]):
                        pass
        finally:
            await foreign.stop()
        why = str(raised.value)
        assert f"a transaction on {place.topic}, partition 1, is open" in why
        tool = f"`kafka-transactions.sh --bootstrap-server {broker.bootstrap}"
        assert f"{tool} list`" in why
        assert f"{tool} forceTerminateTransaction --transactionalId ID`" in why


async def with_history(ledger: Ledger) -> None:
    """Have some requests decided in partition 0."""
    async with working(ledger):
        await ledger.open("ds-0", "ds-1", "ds-2", "ds-3")
        await ledger.send_all(request(f"ds-{i % 4}") for i in range(40))
        await ledger.settle()


@pytest.mark.parametrize("forged", ["garbage", "a decision twice", "a later one", "half a one"])
async def test_a_forged_record_halts_the_partition_and_names_the_position(
    broker: LocalBroker, application: str, forged: str
) -> None:
    async with ledger_of(broker, application) as ledger:
        await with_history(ledger)
        last = oracle.read(broker.bootstrap, ledger.topic("decisions"), 2)[0][-1].value or b""
        number = json.loads(last)["partition_sequence"]
        value = {
            "garbage": b"\x00garbage",
            "a decision twice": last,
            "a later one": last.replace(
                b'"partition_sequence":%d' % number, b'"partition_sequence":%d' % (number + 1), 1
            ),
            "half a one": last[: len(last) // 2],
        }[forged]
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce(ledger.topic("decisions"), value, b"ds-0", partition=0)
        assert producer.flush(PATIENCE_S) == 0
        (why,) = await halted(ledger)
        assert "partition 0 halted" in why
        assert str(number) in why or str(number + 1) in why
        assert "`accountant audit`" in why


async def test_deleted_decisions_halt_the_partition(broker: LocalBroker, application: str) -> None:
    async with ledger_of(broker, application) as ledger:
        await with_history(ledger)
        Operator(ledger).delete_before("decisions", 0, 5)
        (why,) = await halted(ledger)
        assert "begins at offset 5: decisions were deleted" in why
        assert "`accountant topics check`" in why


async def test_settings_that_could_take_back_an_acknowledged_grant_refuse_the_start(
    broker: LocalBroker, application: str
) -> None:
    async with ledger_of(broker, application) as ledger:
        Operator(ledger).alter("decisions", "unclean.leader.election.enable", "true")
        assert "unclean.leader.election.enable must be false" in await refusal(ledger)
        Operator(ledger).alter("decisions", "unclean.leader.election.enable", "false")
        with pytest.raises(Refused) as raised:
            await topics.check(replace(ledger.deployment, replication=3))
        assert "has 1 copies, must have 3" in str(raised.value)
        tool = f"`kafka-reassign-partitions.sh --bootstrap-server {broker.bootstrap} "
        assert tool in str(raised.value)
        assert "min.insync.replicas is 1, must be at least 2" in str(raised.value)


async def test_inputs_deleted_undecided_halt_the_partition(
    broker: LocalBroker, application: str
) -> None:
    async with ledger_of(broker, application) as ledger:
        await with_history(ledger)
        await ledger.send_all(request(f"ds-{i % 4}") for i in range(40))
        end = 1 + max(o for topic, p, o in ledger.acked if p == 0 and topic.endswith("requests"))
        Operator(ledger).delete_before("requests", 0, end)
        why = " ".join(await halted(ledger))
        assert "is the next to be decided: inputs were deleted" in why


async def test_all_partitions_of_a_ledger_have_its_id_and_the_next_ledger_another(
    broker: LocalBroker,
) -> None:
    found: list[set[object]] = []
    for name in ("ids-1", "ids-2"):
        ledger = Ledger(broker.bootstrap, name, partitions=3)
        at_once = [topics.create(ledger.deployment) for _ in range(2)]
        await asyncio.gather(*at_once, return_exceptions=True)  # each may fence the other
        await topics.create(ledger.deployment)
        places = [TopicPartition(ledger.deployment.topics.decisions, n) for n in range(3)]
        async with StableReader(Cluster(broker.bootstrap), places) as reader:
            firsts = [[r.value async for r in reader.read(place, 0)] for place in places]
        assert [len(each) for each in firsts] == [1, 1, 1]
        found.append({json.loads(each[0] or b"")["genesis"]["ledger"] for each in firsts})
    assert [len(ids) for ids in found] == [1, 1]
    assert found[0] != found[1]
