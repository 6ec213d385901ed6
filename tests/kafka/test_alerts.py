"""Every reached threshold is published: over kills of workers, broker outages and idle times."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import httpx
import pytest

from streams.kafka.service.kafka_service import KafkaService
from streams.testing import LocalBroker
from tests.faults import oracle
from tests.faults.ledger import Ledger, request, working
from tests.faults.ledger import until as soon
from tests.faults.worker_process import WorkerProcess
from tests.forks import commands
from tests.kafka.raw_batches import Raw, append, batch
from tests.nightly import rounds
from tests.observability.programs import free_port
from tests.patience import PATIENCE_S
from tests.streams.alerts.receiver import Receiver
from tests.streams.bodies import enrolment, limiting

STARTS = ("streams.cli",)

RESTARTS = rounds(2, 10)
BASIC = {"filter": "basic", "epsilon": "1"}
SECRET = "Bearer s3cret-of-the-header"


async def until(condition: Any, what: str) -> None:
    """Return once a condition, asked in a thread, holds."""
    for _ in range(int(PATIENCE_S / 0.1)):
        if await asyncio.to_thread(condition):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"after {PATIENCE_S:g} s still not: {what}")


def published(ledger: Ledger) -> list[str]:
    """Return the ids on the topic, in its order, repeats included."""
    ids = []
    for partition in oracle.read(ledger.bootstrap, ledger.topic("alerts"), 4):
        for record in partition:
            value = json.loads(record.value or b"")
            assert record.key == value["alert_id"].encode()
            if "scope" not in value:
                triple = f"{value['dataset']}/{value['generation']}/{value['threshold']}"
                assert value["alert_id"] == triple
            ids.append(value["alert_id"])
    return ids


def repeated_runs(ids: list[str]) -> int:
    """Return how often ids that came before follow one that did not."""
    seen, runs, repeats = set[str](), 0, False
    for each in ids:
        runs += each in seen and not repeats
        repeats = each in seen
        seen.add(each)
    return runs


def crossed(ledger: Ledger) -> set[str]:
    """Return the thresholds that the decisions have reached."""
    return {
        f"{decision['dataset']}/{decision.get('generation', 1)}/{ratio}"
        for partition in oracle.read(ledger.bootstrap, ledger.topic("decisions"), 4)
        for record in partition
        for decision in [json.loads(record.value or b"")]
        for ratio in decision.get("crossed", ())
    }


async def all_published(ledger: Ledger, least: int) -> list[str]:
    """Return the ids on the topic once every reached threshold of the log is there."""
    await ledger.settle()
    expected = await asyncio.to_thread(crossed, ledger)
    assert len(expected) >= least
    await until(lambda: set(published(ledger)) >= expected, "every crossing published")
    found = await asyncio.to_thread(published, ledger)
    assert set(found) == expected
    return found


@contextlib.contextmanager
def process(ledger: Ledger, directory: Path, name: str, **more: str) -> Iterator[WorkerProcess]:
    made = WorkerProcess(ledger, name, directory, **more)
    try:
        made.start()
        yield made
    except BaseException:
        print(made.log_tail())
        raise
    finally:
        made.kill()


@contextlib.asynccontextmanager
async def load(ledger: Ledger) -> AsyncIterator[None]:
    """Open one dataset after the other and use each up, until the block ends."""

    async def ask() -> None:
        number = 0
        while True:
            names = [f"d{number + i}" for i in range(10)]
            number += len(names)
            await ledger.open(*names, **BASIC)
            await asyncio.sleep(
                0.1
            )  # otherwise requests may come before the openings of their datasets
            await ledger.send_all(ledger.edges(*names).take(6))
            for epsilon in ("0.5", "0.3", "0.1", "0.07", "0.03", "0.01"):
                await ledger.send_all([request(name, epsilon=epsilon) for name in names])
                await asyncio.sleep(0.02)

    asking = asyncio.create_task(ask())
    try:
        yield
    finally:
        asking.cancel()
        await asyncio.wait([asking])


@pytest.mark.faults
async def test_no_alert_is_lost_over_kills_and_repeats_are_recognised(
    broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    draw = random.Random(10)
    async with Ledger(broker.bootstrap, application) as ledger:
        with process(ledger, tmp_path, "w1") as worker:
            async with load(ledger):
                for _ in range(RESTARTS):
                    # While it reports alerts, at another moment each time.
                    enough = len(await asyncio.to_thread(published, ledger)) + draw.randrange(
                        10, 40
                    )
                    await until(lambda n=enough: len(published(ledger)) >= n, "it reports alerts")
                    await asyncio.sleep(draw.uniform(0, 0.2))
                    worker.kill()
                    worker.start()
            await ledger.settle()
            worker.kill()
            worker.start()
            # There are no more requests: missing alerts now come from idle datasets.
            found = await all_published(ledger, least=10 * RESTARTS)
        await ledger.judged()
    # A start repeats nothing that is on the topic. Of each partition one produce, of any number of
    # alerts, that was on its way when the worker was killed may be repeated.
    assert repeated_runs(found) <= 4 * (RESTARTS + 1)


async def test_an_idle_dataset_is_reported_after_a_start(
    broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    async with Ledger(broker.bootstrap, application) as ledger:
        async with working(ledger):  # it has no read side
            await ledger.open("census", "survey", **BASIC)
            await ledger.settle()
            await ledger.send_all([request("census", epsilon="0.96")])
            await ledger.settle()
        assert published(ledger) == []
        with process(ledger, tmp_path, "w1") as worker:
            found = await all_published(ledger, least=3)
            assert worker.stop() == 0
        assert sorted(found) == ["census/1/0.5", "census/1/0.8", "census/1/0.95"]
        with process(ledger, tmp_path, "w1") as worker:
            await ledger.send_all([request("survey", epsilon="0.6")])
            found = await all_published(ledger, least=4)
    assert Counter(found).most_common(1)[0][1] == 1, "a restart repeats nothing"


RED = "census/1/level/team/red:1"
ANA = "census/1/level/each/red:1/ana/1"


async def divide(ledger: Ledger, dataset: str = "census") -> None:
    """Give a team a tenth of a dataset, and each of its analysts a twentieth."""
    at = time.time_ns() // 1_000_000
    await ledger.open(dataset, filter="basic", epsilon="10", alert_at=["0.5", "0.8"])
    await ledger.send_all(
        [
            enrolment(dataset, at, 1, "ana", "analyst", team="red:1"),
            limiting(dataset, at, 2, "team", "red:1", part="0.1"),
            limiting(dataset, at, 3, "each", "red:1", part="0.05"),
        ],
        topic="admin",
    )
    await ledger.settle()


async def test_a_worker_reports_thresholds_of_limits_and_a_restart_repeats_none(
    broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    receiver = Receiver()
    async with Ledger(broker.bootstrap, application) as ledger:
        async with working(ledger):  # it has no read side
            await divide(ledger)
            await ledger.send_all([request("census", epsilon="0.45")])
            await ledger.settle()
        assert published(ledger) == []
        with process(ledger, tmp_path, "w1", **webhook(receiver)) as worker:
            idle = {f"{ANA}/0.5", f"{ANA}/0.8"}
            await until(lambda: set(published(ledger)) == idle, "found in the log")
            await ledger.send_all([request("census", epsilon="0.05")])
            expected = idle | {f"{RED}/1/0.5"}
            await until(lambda: set(published(ledger)) == expected, "found in the grant")
            at = time.time_ns() // 1_000_000
            smaller = limiting("census", at, 4, "team", "red:1", part="0.06")
            await ledger.send_all([smaller], topic="admin")
            expected |= {f"{RED}/2/0.8"}
            await until(lambda: set(published(ledger)) == expected, "found in the record")
            await until(lambda: set(receiver.taken) == expected, "delivered")
            await until(lambda: remembered(ledger, *expected), "remembered")
            worker.kill()
            worker.start()
            await until(lambda: len(worker.events("partition_refolded")) >= 8, "it decides again")
            await ledger.send_all([request("census", epsilon="0.06", analyst="carl")])
            await ledger.settle()
            assert worker.stop() == 0
        found = await asyncio.to_thread(published, ledger)
        await ledger.judged()
    receiver.down()
    assert Counter(found) == Counter(expected), "a restart repeats nothing"
    by_id = {post.key: post.body for post in receiver.posts}
    grown = by_id[f"{RED}/1/0.5"]
    assert (
        grown.items() >= {"scope": "team", "name": "red:1", "team": "red:1", "version": 1}.items()
    )
    assert 0.5 <= grown["spent_ratio"] < 0.5 + 1e-9
    assert by_id[f"{ANA}/0.8"]["analyst"] == "ana"


async def test_another_worker_reports_the_alerts_that_an_owner_does_not(
    broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    names = [f"d{i}" for i in range(16)]  # on all four partitions
    # `mute` is an owner without a read side.
    async with Ledger(broker.bootstrap, application) as ledger, working(ledger) as mute:
        await ledger.open(*names, **BASIC)
        await ledger.settle()
        with process(ledger, tmp_path, "w2") as worker:
            await soon(lambda: len(worker.events("partition_refolded")) == 2, "two each")
            await soon(lambda: len(mute.status.serving) == 2, "two each")
            await ledger.send_all([request(name, epsilon="0.6") for name in names])
            found = await all_published(ledger, least=len(names))
    assert sorted(found) == sorted(f"{name}/1/0.5" for name in names), "each once"


def readiness(port: int) -> int:
    """Return the status of a worker's `/readyz`; 0 while no process answers."""
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=5, trust_env=False).status_code
    except httpx.TransportError:
        return 0


async def test_no_alert_is_lost_by_a_broker_outage_with_a_killed_worker(
    own_broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    names = [f"d{i}" for i in range(20)]
    port = free_port()
    async with Ledger(own_broker.bootstrap, application) as ledger:
        with process(ledger, tmp_path, "w1", ACCOUNTANT_METRICS_PORT=str(port)) as worker:
            await ledger.open(*names, **BASIC)
            await ledger.settle()
            for life in range(2):
                await ledger.send_all([request(name, epsilon="0.45") for name in names])
                await ledger.settle()
                await asyncio.to_thread(own_broker.kill)
                await until(lambda: readiness(port) == 503, "the worker has noticed it")
                if life:
                    worker.kill()
                    worker.start()
                await asyncio.to_thread(own_broker.start)
                await ledger.send_all([request(name, epsilon="0.06") for name in names])
            found = await all_published(ledger, least=3 * len(names))
            assert worker.is_running
    assert len(found) - len(set(found)) <= 2 * len(names)


def webhook(receiver: Receiver) -> dict[str, str]:
    return {
        "ACCOUNTANT_ALERT_WEBHOOK": receiver.url,
        "ACCOUNTANT_ALERT_WEBHOOK_AUTHORIZATION": SECRET,
        "ACCOUNTANT_LOG_LEVEL": "debug",
    }


def remembered(ledger: Ledger, *names: str) -> bool:
    """Return whether the webhook's group has committed that it delivered these alerts.

    A worker that ends between an answer and that commit gives the alert again, as it should.
    """
    group = {"group.id": f"{ledger.deployment.application}-webhook"}
    reader = confluent_kafka.Consumer({"bootstrap.servers": ledger.bootstrap, **group})
    try:
        topic = ledger.topic("alerts")
        places = [confluent_kafka.TopicPartition(topic, i) for i in range(4)]
        next_ones = [place.offset for place in reader.committed(places, timeout=PATIENCE_S)]
    finally:
        reader.close()
    records = oracle.read(ledger.bootstrap, topic, 4)
    done = [
        each.key for i, part in enumerate(records) for each in part if each.offset < next_ones[i]
    ]
    return {name.encode() for name in names} <= set(done)


async def test_the_webhook_gets_each_alert_once_over_failures_and_restarts(
    broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    names = [f"d{i}" for i in range(12)]
    receiver = Receiver(500, 503, 500)
    async with Ledger(broker.bootstrap, application) as ledger:
        with process(ledger, tmp_path, "w1", **webhook(receiver)) as worker:
            await ledger.open(*names, **BASIC)
            await ledger.settle()
            await ledger.send_all([request(name, epsilon="0.6") for name in names[:6]])
            await until(lambda: len(set(receiver.taken)) == 6, "delivered after failures")
            assert len(receiver.posts) == 6 + 3
            await until(lambda: remembered(ledger, *receiver.taken), "remembered")
            receiver.down()
            since = worker.mark()
            await ledger.send_all([request(name, epsilon="0.6") for name in names[6:]])
            await all_published(ledger, least=len(names))
            await until(lambda: worker.events("alert_not_taken", since), "tried in vain")
            worker.kill()
            worker.start()
            receiver.up()
            await until(lambda: len(set(receiver.taken)) == 12, "delivered after a restart")
            await until(lambda: remembered(ledger, *receiver.taken), "remembered")
            assert worker.stop() == 0
            log = (tmp_path / "w1.log").read_text()
        with process(ledger, tmp_path, "w1", **webhook(receiver)) as worker:
            await ledger.send_all([request(names[0], epsilon="0.3")])
            await until(lambda: len(set(receiver.taken)) == 13, "the next one")
    receiver.down()
    assert Counter(receiver.taken).most_common(1)[0][1] == 1, "the group's offsets remember"
    assert {post.authorization for post in receiver.posts} == {SECRET}
    assert "alert_not_taken" in log
    assert "s3cret" not in log
    assert "path-secret" not in log


async def test_the_service_and_the_command_show_alerts_of_a_ledger_on_kafka(
    broker: LocalBroker, application: str
) -> None:
    async with Ledger(broker.bootstrap, application) as ledger, working(ledger):
        await ledger.open("census", **BASIC)
        await ledger.settle()
        service = await KafkaService.start(ledger.deployment)
        alerts = service.alerts()
        try:
            await ledger.send_all([request("census", epsilon="0.85")])
            received = [await asyncio.wait_for(anext(alerts), PATIENCE_S) for _ in range(2)]
        finally:
            await service.close()
        assert [alert.alert_id for alert in received] == ["census/1/0.5", "census/1/0.8"]
        with pytest.raises(StopAsyncIteration):
            await anext(alerts)
        done = await asyncio.to_thread(watched, ledger)
    assert [json.loads(line) for line in done.splitlines()] == [
        json.loads(json.dumps(row))
        for row in (
            {
                "alert_id": alert.alert_id,
                "dataset": "census",
                "generation": 1,
                "threshold": alert.threshold,
                "spent_ratio": alert.spent_ratio,
                "decided_at": alert.decided_at,
            }
            for alert in received
        )
    ]


def watched(ledger: Ledger) -> str:
    where = ledger.deployment
    variables = {
        "ACCOUNTANT_URL": f"kafka://{where.bootstrap}",
        "ACCOUNTANT_APPLICATION": where.application,
        "ACCOUNTANT_TOPIC_PREFIX": where.topics.prefix,
        "ACCOUNTANT_PARTITIONS": str(where.partitions),
    }
    words, env = ("watch", "--alerts", "--once", "--json"), {**os.environ, **variables}
    done = commands.run(*words, env=env, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_a_foreign_record_on_the_topic_silences_no_alert(
    broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    receiver = Receiver()
    odd = batch([Raw(b"k", b"junk", headers=[(b"\xff", b"")])])
    async with Ledger(broker.bootstrap, application) as ledger:
        for partition in range(4):
            await append(broker.bootstrap, ledger.topic("alerts"), partition, odd)
        with process(ledger, tmp_path, "w1", **webhook(receiver)) as worker:
            await ledger.open("before", **BASIC)
            await ledger.settle()
            await ledger.send_all([request("before", epsilon="0.6")])
            await until(lambda: "before/1/0.5" in receiver.taken, "delivered past the record")
            for partition in range(4):
                await append(broker.bootstrap, ledger.topic("alerts"), partition, odd)
            await ledger.open("after", **BASIC)
            await ledger.settle()
            await ledger.send_all([request("after", epsilon="0.6")])
            await until(lambda: "after/1/0.5" in receiver.taken, "and past the next one")
            await until(lambda: remembered(ledger, *receiver.taken), "remembered")
            worker.kill()
            worker.start()
            await ledger.send_all([request("after", epsilon="0.3")])
            await until(lambda: "after/1/0.8" in receiver.taken, "also after a restart")
    receiver.down()
    assert Counter(receiver.taken).most_common(1)[0][1] == 1
