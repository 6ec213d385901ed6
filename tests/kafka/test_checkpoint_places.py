"""Workers send the checkpoints of their partitions to sinks."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from accountant.partition import hash_of
from accountant.partition.key_hash import partition_of
from streams.evidence.keys import SigningKey
from streams.evidence.signed_checkpoint import open_signed
from streams.evidence.store import Directory
from streams.kafka.log.checkpoint_topic import Topic
from streams.kafka.wire.security import Cluster
from streams.testing import LocalBroker
from tests.faults import oracle
from tests.faults.ledger import Ledger, request, until
from tests.faults.worker_process import WorkerProcess
from tests.streams.evidence.sinks.kinds import make_topic

PARTITIONS = 2
DATASETS = [
    next(name for i in range(99) if partition_of((name := f"ds-{i}").encode(), PARTITIONS) == part)
    for part in range(PARTITIONS)
]


def ends(ledger: Ledger) -> dict[int, tuple[int, str]]:
    found = oracle.read(ledger.bootstrap, ledger.topic("decisions"), PARTITIONS)
    logs = [[record.value for record in part if record.value is not None] for part in found]
    return {number: (len(log) - 1, hash_of(log[-1])) for number, log in enumerate(logs)}


def newest(store: Path, place: Directory | Topic) -> dict[int, tuple[int, str]]:
    """Return number and hash of the newest checkpoint of each partition in a sink."""
    if not (store / "key").exists():
        return {}
    key = SigningKey.load(store / "key").verifier
    found = sorted(open_signed(note, [key]) for _, note in place.notes())
    return {each.partition: (each.sequence, each.head) for each in found}


def is_newest(ledger: Ledger, store: Path, place: Directory | Topic) -> bool:
    return newest(store, place) == ends(ledger)


def wait_until_newest(ledger: Ledger, store: Path, place: Directory | Topic) -> None:
    """Wait until a sink has the newest of both partitions; a test's time limit ends it."""
    while not is_newest(ledger, store, place):
        time.sleep(0.1)


async def test_the_newest_of_each_partition_is_sent_and_the_last_at_the_end(
    broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    store, other = tmp_path / "kept", tmp_path / "elsewhere"
    other.mkdir()
    name = f"{application}-checkpoints"
    await asyncio.to_thread(make_topic, broker.bootstrap, name)
    places = [Directory(other), Topic(Cluster(broker.bootstrap), name)]
    settings = {
        "ACCOUNTANT_CHECKPOINTS": str(store),
        "ACCOUNTANT_CHECKPOINT_SECONDS": "0.1",
        "ACCOUNTANT_CHECKPOINT_PLACES": f"{other},{places[1].name}",
        "ACCOUNTANT_CHECKPOINT_PLACES_SECONDS": "1",
    }
    async with Ledger(broker.bootstrap, application, partitions=PARTITIONS) as ledger:
        worker = WorkerProcess(ledger, "w1", tmp_path, **settings)
        worker.start()
        await ledger.open(*DATASETS)
        for _ in range(2):
            await ledger.send_all([request(each, epsilon="0.0001") for each in DATASETS])
            await ledger.settle()
            for place in places:
                await asyncio.to_thread(wait_until_newest, ledger, store, place)
        assert await asyncio.to_thread(worker.stop) == 0

        # Once more, with an interval that does not end: only the end sends the last.
        settings["ACCOUNTANT_CHECKPOINT_PLACES_SECONDS"] = "86400"
        worker = WorkerProcess(ledger, "w1", tmp_path, **settings)
        worker.start()
        await ledger.send_all([request(each, epsilon="0.0001") for each in DATASETS])
        await ledger.settle()
        await ledger.send_all([request(each, epsilon="0.0001") for each in DATASETS * 3])
        await ledger.settle()
        assert await asyncio.to_thread(worker.stop) == 0
        for place in places:
            assert await asyncio.to_thread(is_newest, ledger, store, place)


async def test_a_worker_without_checkpoints_refuses_sinks(
    broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        worker = WorkerProcess(
            ledger, "w1", tmp_path, ACCOUNTANT_CHECKPOINT_PLACES=str(tmp_path / "elsewhere")
        )
        worker.start()
        await until(lambda: not worker.is_running, "ended")
        assert "set ACCOUNTANT_CHECKPOINTS" in (tmp_path / "w1.log").read_text()
