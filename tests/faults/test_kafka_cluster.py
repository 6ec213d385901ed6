"""One broker of three hangs: a worker reports it, and continues once the others take over."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from accountant.partition.key_hash import partition_of
from tests.faults.cluster import LocalCluster
from tests.faults.ledger import Ledger, Watch, is_ready, request, until, working
from tests.patience import PATIENCE_S

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.faults,
    pytest.mark.kafka,
    pytest.mark.timeout(1_200),
]

_PARTITIONS = 4
_LATER_S = 25.0


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as running:
        yield running
        print(running.log_tail())  # shown with a test that fails


def datasets() -> list[str]:
    """Return the name of a dataset of each partition."""
    found: dict[int, str] = {}
    for name in (f"ds-{i}" for i in itertools.count()):
        found.setdefault(partition_of(name.encode(), _PARTITIONS), name)
        if len(found) == _PARTITIONS:
            return list(found.values())
    raise AssertionError


async def ask(ledger: Ledger, names: list[str], stop: asyncio.Event) -> None:
    """Send requests all the time; give up those that a hanging broker does not accept."""
    producer = Producer(
        {
            "bootstrap.servers": ledger.bootstrap,
            "enable.idempotence": True,
            "message.timeout.ms": 15_000,
            "socket.timeout.ms": 3_000,
            "log_level": 0,
        }
    )
    edges = {name: ledger.edges(name) for name in names}
    while not stop.is_set():
        for name in names * 2:
            number = partition_of(name.encode(), _PARTITIONS)
            plain = random.random() < 0.7
            body = request(name, epsilon="0.0001") if plain else edges[name].take(1)[0]
            producer.produce(ledger.topic("requests"), body, key=name.encode(), partition=number)
        producer.poll(0)
        await asyncio.sleep(0.2)
    assert await asyncio.to_thread(producer.flush, PATIENCE_S) == 0


async def test_a_worker_continues_while_one_broker_of_three_hangs(
    cluster: LocalCluster, application: str
) -> None:
    watch = Watch()
    names = datasets()
    where = cluster.bootstrap
    async with Ledger(where, application, partitions=_PARTITIONS, replication=3) as ledger:
        await ledger.open(*names)
        async with working(ledger, observers=[watch]) as worker:
            stop = asyncio.Event()
            asking = asyncio.create_task(ask(ledger, names, stop))
            try:
                await until(lambda: len(watch.decided_of) == _PARTITIONS, "decides")
                hung = cluster.leaders(ledger.topic("decisions"))[0]
                cluster.pause(hung)
                reason = "does not answer"
                await until(lambda: reason in str(worker.status.readiness()), "says so")
                # The rest of the cluster notices after nine seconds, and elects others.
                await asyncio.to_thread(cluster.wait_until_without, hung)
                await until(lambda: is_ready(worker), "goes on without it")
                then = watch.decided_of
                await until(
                    lambda: all(watch.decided_of[i] > then[i] + 50 for i in range(_PARTITIONS)),
                    "decides without it",
                )
                before = watch.refolded_of.copy()
                # Only time can show it: the worker looks at its brokers every three seconds.
                await asyncio.sleep(_LATER_S)
                replayed = watch.refolded_of - before
                cluster.resume(hung)
                await asyncio.to_thread(cluster.wait_until_whole)
                await until(lambda: is_ready(worker), "ready with it")
            finally:
                stop.set()
                await asyncio.wait_for(asking, PATIENCE_S)
            verdict = await ledger.judged()
        assert verdict.plain.keys() <= {"opened", "granted"}
    assert not replayed, "for a broker that nobody needs any more"
    assert not watch.halts
