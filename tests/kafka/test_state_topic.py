"""`state` is only a cache: lost, recreated or old, it is rebuilt from the decisions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from accountant.records import partition_row_key
from streams.audit.log_audit import run_audit
from streams.errors import Refused, Unavailable
from streams.kafka.deployment import Deployment
from streams.kafka.log import topics
from streams.kafka.log.kafka_log import KafkaLog
from streams.kafka.service.kafka_service import KafkaService
from streams.testing import LocalBroker
from streams.worker.partitions import Worker
from tests.faults import oracle
from tests.faults.ledger import Ledger, Watch, is_ready, request, until, working
from tests.faults.operator import Operator
from tests.kafka.test_repeats import now
from tests.patience import PATIENCE_S

DATASETS = [f"ds-{number}" for number in range(12)]


def ledger_of(broker: LocalBroker, application: str) -> Ledger:
    return Ledger(broker.bootstrap, application, partitions=2)


async def spend(ledger: Ledger, names: list[str] = DATASETS) -> None:
    await ledger.send_all(request(name, epsilon="0.01") for name in names)
    await ledger.settle()


async def ends_checked(ledger: Ledger, worker: Worker) -> None:
    """Return once a worker knows the present ends of the topics that it writes."""
    async with AIOKafkaConsumer(bootstrap_servers=ledger.bootstrap) as consumer:
        places = [
            TopicPartition(ledger.topic(name), number)
            for name in ("decisions", "state")
            for number in range(ledger.deployment.partitions)
        ]
        ends = await consumer.end_offsets(places)
    found = worker._log_ends
    await until(lambda: ends.items() <= found._ends.items(), "the ends are checked")


async def opened(ledger: Ledger) -> None:
    await ledger.open(*DATASETS)
    await spend(ledger)


@pytest.mark.parametrize("how", ["recreated", "bare"])
async def test_a_state_topic_recreated_between_two_runs_is_rebuilt(
    broker: LocalBroker, application: str, how: str
) -> None:
    async with ledger_of(broker, application) as ledger:
        async with working(ledger):
            await opened(ledger)
        Operator(ledger).delete("state")
        if how == "bare":
            Operator(ledger).create_bare("state")
        await topics.create(ledger.deployment)
        async with working(ledger):
            # Rows of idle datasets are back, too.
            await ledger.judged()
            await spend(ledger, DATASETS[:3])
        verdict = await ledger.judged()
        assert verdict.outcomes["granted"] == len(DATASETS) + 3


@pytest.mark.parametrize("value", [b'{"type":"\xff"}', b"[" * 5_000, b"garbage"])
async def test_readers_do_not_show_a_partition_with_a_malformed_row(
    broker: LocalBroker, application: str, value: bytes
) -> None:
    async with ledger_of(broker, application) as ledger:
        async with working(ledger):
            await opened(ledger)
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap)
        await producer.start()
        for key in (b"zz", partition_row_key(1)):
            await producer.send_and_wait(ledger.topic("state"), value, key, partition=1)
        await producer.stop()
        async with following(ledger.deployment) as service:
            for name in DATASETS:
                if ledger.deployment.partition_of(name) == 0:
                    assert await service.dataset(name) is not None
                    continue
                with pytest.raises(Unavailable, match="rows of partition 1"):
                    await service.dataset(name)
            assert service.readiness().ready
            (note,) = service.readiness().notes
            assert "partition 1 cannot be shown" in note
        # An audit compares the rows with the log: it ends, and names the malformed row.
        reports = await asyncio.to_thread(run_audit, KafkaLog(ledger.deployment))
        assert [report.ok for _, report in reports] == [True, False]


async def test_readers_without_rows_read_the_log_from_its_beginning(
    broker: LocalBroker, application: str
) -> None:
    async with ledger_of(broker, application) as ledger:
        async with working(ledger):
            await opened(ledger)
        Operator(ledger).delete("state")
        await topics.create(ledger.deployment)
        # The decisions which opened them are too old to be read back.
        service = await KafkaService.start(replace(ledger.deployment, window_ms=1, skew_ms=0))
        try:
            views = await service.datasets()
            assert [view.dataset for view in views] == sorted(DATASETS)
            assert {view.totals["mechanisms"] for view in views} == {1}
            async with working(ledger):  # it writes the rows again
                await spend(ledger)
                answer = await service.submit("requests", request("ds-0"), wait=PATIENCE_S)
                assert answer.decision is not None
                view = await service.dataset("ds-0")
                assert view is not None
                assert view.totals["mechanisms"] == 3
        finally:
            await service.close()


async def test_a_dataset_whose_row_is_missing_is_unknown_until_a_worker_writes_it(
    broker: LocalBroker, application: str
) -> None:
    async with ledger_of(broker, application) as ledger:
        # The decisions which opened the datasets are too old to be read back.
        deployment = replace(ledger.deployment, window_ms=1, skew_ms=0)
        async with following(deployment) as service:
            for name in DATASETS:
                service.check_is_known(name)  # nothing is open, and no worker has begun
        async with working(ledger):
            await opened(ledger)
        async with following(deployment) as service:
            for name in DATASETS:
                service.check_is_known(name)
        number = deployment.partition_of("ds-0")
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            await producer.send_and_wait(ledger.topic("state"), None, b"ds-0", partition=number)
        async with following(deployment) as service:
            with pytest.raises(Unavailable, match=f"partition {number} in the topic"):
                await service.dataset("ds-0")
            with pytest.raises(Unavailable, match=f"partition {number} in the topic"):
                service.check_is_known("ds-0")
            (other, *_) = [each for each in DATASETS if deployment.partition_of(each) != number]
            service.check_is_known(other)
            async with working(ledger):
                await until(lambda: is_known(service, "ds-0"), "its row is written again")
            assert await service.dataset("ds-0") is not None


async def test_a_decision_that_cannot_be_read_stops_its_partition_alone(
    broker: LocalBroker, application: str
) -> None:
    async with ledger_of(broker, application) as ledger:
        async with working(ledger):
            await opened(ledger)
        number = ledger.deployment.partition_of("ds-0")
        (other, *_) = [name for name in DATASETS if ledger.deployment.partition_of(name) != number]
        async with following(ledger.deployment) as service:
            assert service.readiness().notes == []
            async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
                await producer.send_and_wait(
                    ledger.topic("decisions"), b"garbage", b"ds-0", partition=number
                )
            await until(lambda: bool(service.readiness().notes), "it is read")
            readiness = service.readiness()
            assert (readiness.ready, len(readiness.notes)) == (True, 1)
            assert f"partition {number} cannot be shown" in readiness.notes[0]
            assert service.states.known() == {number: False, 1 - number: True}
            for read in (service.dataset("ds-0"), service.datasets(), service.members("ds-0")):
                with pytest.raises(Unavailable, match="accountant audit"):
                    await read
            assert await service.dataset(other) is not None


@contextlib.asynccontextmanager
async def following(deployment: Deployment) -> AsyncIterator[KafkaService]:
    service = await KafkaService.start(deployment)
    try:
        yield service
    finally:
        await service.close()


def is_known(service: KafkaService, dataset: str) -> bool:
    with contextlib.suppress(Unavailable):
        service.check_is_known(dataset)
        return True
    return False


async def test_a_state_topic_recreated_under_a_running_worker_is_detected(
    broker: LocalBroker, application: str
) -> None:
    watch = Watch()
    async with ledger_of(broker, application) as ledger:
        async with working(ledger, observers=[watch]) as worker:
            await opened(ledger)
            for idle in (True, False):
                await ends_checked(ledger, worker)
                refolds = watch.refolds
                Operator(ledger).delete("state")
                Operator(ledger).create_bare("state")
                if not idle:
                    await ledger.send_all(request(name, epsilon="0.01") for name in DATASETS)
                await until(lambda n=refolds: watch.refolds >= n + 2, f"refolded, idle: {idle}")
                await until(lambda: is_ready(worker), "ready")
                await ledger.judged()
        verdict = await ledger.judged()
        assert verdict.outcomes["granted"] == 2 * len(DATASETS)


async def test_a_worker_resumes_after_its_state_topic_is_created_again(
    broker: LocalBroker, application: str
) -> None:
    async with ledger_of(broker, application) as ledger:
        async with working(ledger, check_every=1.0) as worker:
            await opened(ledger)
            Operator(ledger).delete("state")
            await ledger.send_all(request(name, epsilon="0.01") for name in DATASETS)
            await until(
                lambda: "`accountant topics create`" in str(worker.status.readiness()), "reported"
            )
            await topics.create(ledger.deployment)
            await until(lambda: is_ready(worker), "ready")
            verdict = await ledger.judged()
        assert verdict.outcomes["granted"] == 2 * len(DATASETS)


async def test_an_idle_worker_without_a_state_topic_names_the_topic_and_not_the_broker(
    broker: LocalBroker, application: str
) -> None:
    async with ledger_of(broker, application) as ledger:
        async with working(ledger, check_every=3600.0) as worker:
            await opened(ledger)
            Operator(ledger).delete("state")
            said: set[str] = set()

            def is_reported() -> bool:
                said.update(worker.status.readiness().reasons)
                return any("missing topics" in reason for reason in said)

            await until(is_reported, "reported")
            assert any(ledger.topic("state") in reason for reason in said)
            assert not any("does not answer" in reason for reason in said), said
            await topics.create(ledger.deployment)
            await until(lambda: is_ready(worker), "ready")
            await spend(ledger)
        verdict = await ledger.judged()
        assert verdict.outcomes["granted"] == 2 * len(DATASETS)


async def test_a_state_topic_older_than_the_log_is_not_trusted(
    broker: LocalBroker, application: str
) -> None:
    async with ledger_of(broker, application) as ledger:
        async with working(ledger):
            await opened(ledger)
        old = oracle.read(broker.bootstrap, ledger.topic("state"), 2)
        async with working(ledger):
            await spend(ledger)
        await restore(ledger, old)
        async with working(ledger):
            await ledger.judged()
            await spend(ledger)
        verdict = await ledger.judged()
        assert verdict.outcomes["granted"] == 3 * len(DATASETS)


async def test_a_state_restored_from_a_backup_under_a_running_worker_is_detected(
    broker: LocalBroker, application: str
) -> None:
    watch = Watch()
    async with ledger_of(broker, application) as ledger:
        async with working(ledger, observers=[watch]) as worker:
            await opened(ledger)
            old = oracle.read(broker.bootstrap, ledger.topic("state"), 2)
            for _ in range(3):
                await spend(ledger)
            await ends_checked(ledger, worker)
            refolds = watch.refolds
            Operator(ledger).delete("state")
            Operator(ledger).create_bare("state")
            await restore(ledger, old)
            await until(lambda: watch.refolds >= refolds + 2, "refolded")
            await until(lambda: is_ready(worker), "ready")
            await spend(ledger)
            verdict = await ledger.judged()
        assert verdict.outcomes["granted"] == 5 * len(DATASETS)


async def test_an_old_row_of_an_idle_dataset_is_not_trusted(
    broker: LocalBroker, application: str
) -> None:
    # Ids are remembered for a moment only, so that no decision read back speaks of the idle one.
    window, skew = 2_000, 500
    options = {"partitions": 1, "window_ms": window, "skew_ms": skew}
    async with Ledger(broker.bootstrap, application, **options) as ledger:
        async with working(ledger):
            await ledger.open("idle", "busy")
            await spend(ledger, ["idle"])
        old = rows_of(ledger, b"idle")[-1]
        async with working(ledger):
            await spend(ledger, ["idle"])
            due = now() + window + skew + 500
            await until(lambda: now() > due, "its decisions are too old to be read back")
            await spend(ledger, ["busy"])
        good = rows_of(ledger, b"idle")[-1]
        await restore(ledger, [[old]])
        async with working(ledger):
            await spend(ledger, ["idle"])
            verdict = await ledger.judged()
        assert verdict.outcomes["granted"] == 4
        written = [row.value for row in rows_of(ledger, b"idle")]
        # Restored, made again from the log, spent from.
        assert written[-3:-1] == [old.value, good.value]


def rows_of(ledger: Ledger, key: bytes) -> list[Any]:
    """Return all that `state` still holds of a key, in order."""
    found = oracle.read(ledger.bootstrap, ledger.topic("state"), 1)[0]
    return [row for row in found if row.key == key]


async def restore(ledger: Ledger, rows: list[list[Any]]) -> None:
    """Write old rows back, as from a backup."""
    producer = AIOKafkaProducer(bootstrap_servers=ledger.bootstrap)
    await producer.start()
    for partition, records in enumerate(rows):
        for record in records:
            await producer.send_and_wait(
                ledger.topic("state"), record.value, key=record.key, partition=partition
            )
    await producer.stop()


async def test_lost_decisions_are_refused_while_state_has_the_spending(
    broker: LocalBroker, application: str
) -> None:
    async with ledger_of(broker, application) as ledger:
        async with working(ledger):
            await opened(ledger)
        Operator(ledger).delete("decisions")
        with pytest.raises(Refused, match=r"the ledger was lost\. Restore the decisions"):
            await topics.create(ledger.deployment)
        async with working(ledger, ready=False) as worker:
            await until(lambda: str(worker.status.readiness()).count("halted") == 2, "halted")
            assert "restore it" in str(worker.status.readiness())
            assert not worker.status.serving


@pytest.mark.parametrize("running", ["no", "long", "not yet committing"])
async def test_decisions_and_state_both_missing_are_refused(
    broker: LocalBroker, application: str, running: str
) -> None:
    async with ledger_of(broker, application) as ledger:
        async with working(ledger):
            await opened(ledger)
        if running == "no":
            Operator(ledger).delete("decisions", "state")
        else:
            async with working(ledger) as worker:
                if running == "long":
                    await spend(ledger)
                    await ends_checked(ledger, worker)
                Operator(ledger).delete("decisions", "state")
                Operator(ledger).create_bare("decisions", "state")
                await ledger.send_all(request(name) for name in DATASETS)
                await until(lambda: str(worker.status.readiness()).count("halted") == 2, "halted")
        # The inputs show that this is no new ledger: a genesis would give full budgets again.
        with pytest.raises(Refused, match="the ledger was lost"):
            await topics.create(ledger.deployment)
        async with working(ledger, ready=False) as worker:
            await until(lambda: str(worker.status.readiness()).count("halted") == 2, "halted")
            assert not worker.status.serving
        assert sum(map(len, oracle.read(broker.bootstrap, ledger.topic("decisions"), 2))) == 0
