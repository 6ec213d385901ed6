"""`accountant worker` on a real broker, against a bare copy of the same bytes.

BENCH_BEFORE=DIRECTORY, a checkout of another version, also measures a worker of that one, at the
same time on the same broker: other load then slows both.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Iterator
from typing import NamedTuple

from aiokafka import TopicPartition

from accountant.partition.key_hash import partition_of
from benchmarks import requests
from benchmarks.copy_loop import Shape, copy
from benchmarks.kafka_load import Counter, ask_all, deploy, open_all
from benchmarks.measure import Row, Scale
from benchmarks.processes import command, free_port, processor_seconds, worker_settings
from streams.kafka.deployment import Deployment
from streams.kafka.wire.reader import consumer
from streams.processing.processor import BATCH
from streams.testing import LocalBroker
from streams.worker.partitions import Worker

_PARTITIONS = 4
_DATASETS = 1_000
_SAMPLE = 20_000
_ROUNDS = 3
_PAIRS = 3
_POLL_S = 0.02
_PATIENCE_S = 40.0
_MICROSECONDS = 1e6
_QUIET_S = 3.0  # without a commit: then the worker has decided everything


class Speed(NamedTuple):
    """The speed of a worker.

    Attributes:
        rate: decisions a second.
        busy: microseconds of processor time a decision, of all its threads.
    """

    rate: float
    busy: float


async def _shape(deployment: Deployment) -> Shape:
    """Return the output of a worker, measured inside one that decides a sample."""
    counter = Counter()
    worker = Worker(deployment, instance_id="bench", observers=[counter])
    await worker.start()
    try:
        await counter.reach(_SAMPLE)
    finally:
        await worker.stop()
    return Shape(
        batch=BATCH,
        decision_bytes=counter.bytes // counter.decisions,
        rows=counter.rows // counter.transactions,
        row_bytes=counter.row_bytes,
    )


async def _decide(deployment: Deployment, *, read_side: bool, checkout: str = ".") -> Speed:
    """Return the speed of `accountant worker`, from its first commit to its last."""
    decisions = [TopicPartition(deployment.topics.decisions, i) for i in range(_PARTITIONS)]
    port = free_port()
    settings = worker_settings(deployment, port, read_side=read_side)
    async with consumer(deployment.cluster, committed=True) as follower:
        before = sum((await follower.end_offsets(decisions)).values())
        with command("worker", settings, port=port, cwd=checkout, ready=False) as process:
            first = last = None
            given_up = time.perf_counter() + _PATIENCE_S
            while last is None or time.perf_counter() - last[0] < _QUIET_S:
                await asyncio.sleep(_POLL_S)
                # Transaction markers take offsets, too: about one in five hundred.
                come = sum((await follower.end_offsets(decisions)).values())
                if come > before and (last is None or come > last[1]):
                    last = time.perf_counter(), come, processor_seconds(process)
                    first = first or last
                if last is None and time.perf_counter() > given_up:
                    raise RuntimeError(f"the worker decided nothing within {_PATIENCE_S:.0f} s")
    assert first is not None
    seconds, decided, busy = (b - a for a, b in zip(first, last, strict=True))
    return Speed(decided / seconds, busy / decided * _MICROSECONDS)


async def _filled(broker: LocalBroker, prefix: str, count: int) -> Deployment:
    """Return a deployment with open datasets and this number of undecided requests."""
    deployment = await deploy(broker, prefix, _PARTITIONS)
    datasets = requests.names(_DATASETS)
    await open_all(deployment, datasets)
    await _decide(deployment, read_side=False)
    await ask_all(deployment, datasets, count, 0)
    return deployment


async def _copies(deployment: Deployment, target: Deployment, count: int, shape: Shape) -> float:
    """Return the records a second of a copy loop over a deployment's requests."""
    counts = dict.fromkeys(range(_PARTITIONS), 0)
    for name in requests.any_of(requests.names(_DATASETS), 0, count):
        counts[partition_of(name.encode(), _PARTITIONS)] += 1
    topics = target.topics
    seconds = await copy(
        deployment.bootstrap,
        deployment.topics.requests,
        topics.decisions,
        topics.state,
        counts,
        shape,
    )
    return count / seconds


async def _rounds(count: int, rounds: int) -> tuple[list[tuple[Speed, Speed, float]], Shape]:
    """Return the speed of a worker, of one without the read side, and copies/s, of each round.

    Each goes first in a third of the rounds, since the broker speeds up as it runs.
    """
    done = []
    with LocalBroker() as broker:
        shape = await _shape(await _filled(broker, "s.", _SAMPLE))
        for number in range(rounds):
            whole = await _filled(broker, f"w{number}.", count)
            alone = await _filled(broker, f"a{number}.", count)
            target = await deploy(broker, f"c{number}.", _PARTITIONS)
            speeds, copied = [Speed(0, 0)] * 2, 0.0
            for place in range(3):
                turn = (number + place) % 3
                if turn == 2:
                    copied = await _copies(whole, target, count, shape)
                else:
                    deployment = (whole, alone)[turn]
                    speeds[turn] = await _decide(deployment, read_side=turn == 0)
            done.append((speeds[0], speeds[1], copied))
    return done, shape


async def _beside(before: str, count: int, *, read_side: bool) -> list[tuple[Speed, Speed]]:
    """Return the speeds of this version and of another one, both at work at the same time."""
    done = []
    with LocalBroker() as broker:
        for number in range(_PAIRS):
            prefixes = f"n{number}.", f"b{number}."
            ours, theirs = [await _filled(broker, prefix, count) for prefix in prefixes]
            pair = await asyncio.gather(
                _decide(ours, read_side=read_side),
                _decide(theirs, read_side=read_side, checkout=before),
            )
            done.append((pair[0], pair[1]))
    return done


def _ratios(before: str, count: int) -> Iterator[Row]:
    for name, read_side in (("elsewhere", False), ("and all", True)):
        pairs = asyncio.run(_beside(before, count, read_side=read_side))
        ratios = [ours.busy / theirs.busy for ours, theirs in pairs]
        yield Row(
            name=f"worker, read side {name}, processor time / before",
            value=statistics.median(ratios),
            unit="",
            note=f"rounds: {', '.join(f'{ratio:.2f}' for ratio in ratios)}",
        )


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the rates of a worker and of a copy loop, and their ratios: medians of rounds."""
    count = scale.of(200_000)
    done, shape = asyncio.run(_rounds(count, 1 if scale.quick else _ROUNDS))
    note = f"{count:,} requests, {_DATASETS:,} datasets, {_PARTITIONS} partitions, "
    note += f"{shape.decision_bytes} bytes each, {shape.rows} rows a transaction"
    names = "worker, read side and all", "worker, read side elsewhere"
    wholes, alones, copies = zip(*done, strict=True)
    workers = dict(zip(names, (wholes, alones), strict=True))
    for name, speeds in workers.items():
        rate = statistics.median(speed.rate for speed in speeds)
        yield Row(name=name, value=rate, unit="decisions/s", note=note if speeds is wholes else "")
    copied = statistics.median(copies)
    yield Row(name="copy loop on the broker", value=copied, unit="records/s")
    for name, speeds in workers.items():
        busy = [speed.busy for speed in speeds]
        yield Row(
            name=f"{name}, processor time a decision",
            value=statistics.median(busy),
            unit="us",
            note=f"rounds: {', '.join(f'{each:.1f}' for each in busy)}",
        )
    for name, speeds in workers.items():
        ratios = [speed.rate / rate for speed, rate in zip(speeds, copies, strict=True)]
        yield Row(
            name=f"{name} / copy loop",
            value=statistics.median(ratios),
            unit="",
            note=f"rounds: {', '.join(f'{ratio:.2f}' for ratio in ratios)}",
        )
    before = os.environ.get("BENCH_BEFORE")
    if before:
        yield from _ratios(before, scale.of(100_000))
