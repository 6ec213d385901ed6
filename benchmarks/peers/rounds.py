"""Rounds in which every program answers the same requests on one broker."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from benchmarks import requests
from benchmarks.kafka_load import ask_all, deploy, open_all
from benchmarks.peers import programs
from benchmarks.peers.cost import Cost, Unmeasured, cost, watch
from benchmarks.peers.programs import Load, Running, Start
from streams.kafka.deployment import Deployment
from streams.kafka.wire.reader import consumer
from streams.testing import LocalBroker

_PARTITIONS: Final = 4
_DATASETS: Final = 1_000

WORKER: Final = "worker"
STARTS: Final[dict[str, Start]] = {
    WORKER: programs.worker,
    "kafka-streams": programs.kafka_streams,
    "kafka-streams-uncached": programs.kafka_streams_uncached,
    "quix-streams": programs.quix,
    "postgresql": programs.postgres,
}


class Round:
    """What the programs took in one round; the reason of each that was not measured."""

    def __init__(self) -> None:
        self.costs: dict[str, Cost] = {}
        self.reasons: dict[str, str] = {}


def run(
    names: Sequence[str], count: int, rounds: int, report: Callable[[str], None]
) -> list[Round]:
    """Measure the named programs, the worker among them, in turns that change each round."""
    return asyncio.run(_run(names, count, rounds, report))


async def _run(
    names: Sequence[str], count: int, rounds: int, report: Callable[[str], None]
) -> list[Round]:
    done = []
    with LocalBroker() as broker:
        for number in range(rounds):
            report(f"round {number + 1}: making {count:,} requests")
            deployment = await _filled(broker, f"r{number}.", count)
            turn = Round()
            for place in range(len(names)):
                name = names[(place + number) % len(names)]
                report(f"round {number + 1}: {name}")
                try:
                    turn.costs[name] = await _measure(broker, deployment, name, number, count)
                except (Unmeasured, OSError, subprocess.SubprocessError) as error:
                    turn.reasons[name] = str(error)
            done.append(turn)
    return done


async def _filled(broker: LocalBroker, prefix: str, count: int) -> Deployment:
    """Return a deployment with open datasets and this number of undecided requests."""
    deployment = await deploy(broker, prefix, _PARTITIONS)
    datasets = requests.names(_DATASETS)
    await open_all(deployment, datasets)
    with _scratch(broker, deployment, "open") as load, programs.worker(load) as running:
        async with _visible(deployment, deployment.topics.decisions) as visible:
            await watch(visible.count, running.spent, _DATASETS, running.check)
    await ask_all(deployment, datasets, count, 0)
    return deployment


async def _measure(
    broker: LocalBroker, deployment: Deployment, name: str, number: int, count: int
) -> Cost:
    with _scratch(broker, deployment, f"{name}-{number}") as load:
        output = deployment.topics.decisions
        if name != WORKER:
            output = load.output
            await _create(deployment, output)
        async with _visible(deployment, output) as visible:
            with STARTS[name](load) as running:
                committed = running.committed or visible.count
                samples = await watch(committed, running.spent, count, running.check)
                answers = await _answers(running, visible)
    _verify(answers, count)
    return cost(samples, count)


async def _answers(running: Running, visible: _Visible) -> tuple[int, int, float]:
    if running.answers is not None:
        return await asyncio.to_thread(running.answers)
    return await visible.answers()


def _verify(answers: tuple[int, int, float], count: int) -> None:
    """Check that a program answered every request once, and granted most of them."""
    found, granted, length = answers
    if found != count:
        raise Unmeasured(f"it gave {found:,} answers to {count:,} requests")
    if granted * 2 < count:
        raise Unmeasured(f"it granted {granted:,} of {count:,} requests")
    if not programs.ANSWER_BYTES * 0.8 < length < programs.ANSWER_BYTES * 1.3:
        raise Unmeasured(f"its answers have {length:.0f} bytes")


@contextlib.contextmanager
def _scratch(broker: LocalBroker, deployment: Deployment, name: str) -> Iterator[Load]:
    with tempfile.TemporaryDirectory(prefix="peers-", ignore_cleanup_errors=True) as directory:
        yield Load(
            broker=broker,
            deployment=deployment,
            prefix=f"peer-{name}",
            scratch=Path(directory),
        )


async def _create(deployment: Deployment, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=deployment.bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, _PARTITIONS, 1)])
    finally:
        await admin.close()
    await asyncio.sleep(1)  # a new topic takes a moment to be known


class _Visible:
    """What becomes visible in a topic."""

    def __init__(self, client: Any, partitions: list[TopicPartition], begin: dict[Any, int]):
        self._client = client
        self._partitions = partitions
        self._begin = begin

    async def count(self) -> int:
        """Return how many offsets became visible, those of transactions' markers included."""
        ends = await self._client.end_offsets(self._partitions)
        return int(sum(ends.values()) - sum(self._begin.values()))

    async def answers(self) -> tuple[int, int, float]:
        """Return the number of records, of those that grant, and their mean length."""
        ends = await self._client.end_offsets(self._partitions)
        self._client.assign(self._partitions)
        for partition, offset in self._begin.items():
            self._client.seek(partition, offset)
        found = granted = length = 0
        for partition in self._partitions:
            while await self._client.position(partition) < ends[partition]:
                got = await self._client.getmany(timeout_ms=200)
                for records in got.values():
                    for record in records:
                        found += 1
                        granted += b'"outcome":"granted"' in record.value.replace(b" ", b"")
                        length += len(record.value)
        return found, granted, length / max(found, 1)


@contextlib.asynccontextmanager
async def _visible(deployment: Deployment, topic: str) -> AsyncIterator[_Visible]:
    partitions = [TopicPartition(topic, i) for i in range(_PARTITIONS)]
    async with consumer(deployment.cluster, committed=True) as client:
        begin = await client.end_offsets(partitions)
        yield _Visible(client, partitions, begin)
