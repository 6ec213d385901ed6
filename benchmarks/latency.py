"""500 requests a second on a broker: from a request's append to its visible decision."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from collections.abc import Iterator

from benchmarks import requests
from benchmarks.bare import bare_producer
from benchmarks.kafka_load import deploy, open_all
from benchmarks.measure import Row, Scale, percentile
from benchmarks.processes import command, free_port, worker_settings
from benchmarks.steady_load import latencies
from streams.kafka.deployment import Deployment
from streams.testing import LocalBroker

_RATE = 500
_PARTITIONS = 4
_DATASETS = 200
_TRANSACTIONS = 1_000
_TURNS = 5
# Until then the broker's JIT compiler takes a core, and a transaction takes three times as long.
_WARM_S = 90


async def _empty_transactions(deployment: Deployment) -> list[float]:
    """Return the seconds of transactions that write one byte and nothing else."""
    client = bare_producer(deployment.bootstrap, "empty")
    await client.start()
    took = []
    try:
        for _ in range(_TRANSACTIONS):
            await asyncio.sleep(0.004)  # the broker has written the last one's markers
            started = time.perf_counter()
            async with client.transaction():
                await client.send_and_wait(deployment.topics.alerts, b".", partition=0)
            took.append(time.perf_counter() - started)
    finally:
        await client.stop()
    return took


def _run(
    broker: LocalBroker, prefix: str, seconds: float, *, warm: float, apart: bool
) -> tuple[list[float], list[float]]:
    """Return the seconds of requests, and those of empty transactions."""
    deployment = asyncio.run(deploy(broker, prefix, _PARTITIONS))
    asyncio.run(open_all(deployment, requests.names(_DATASETS)))
    with contextlib.ExitStack() as running:
        port = free_port()
        settings = worker_settings(deployment, port, read_side=not apart)
        running.enter_context(command("worker", settings, port=port))
        if apart:
            port = free_port()
            settings = worker_settings(deployment, port, read_side=False)
            running.enter_context(command("gateway", settings, port=port))
        datasets = requests.names(_DATASETS)
        latencies(deployment, datasets, _RATE, warm)
        took, empty = [], []
        for _ in range(_TURNS):  # alternate, so that other load on the machine slows both
            empty += asyncio.run(_empty_transactions(deployment))
            took += latencies(deployment, datasets, _RATE, seconds / _TURNS)
    return took, empty


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the tail of the latency and of an empty transaction's, in one process and in two."""
    seconds, warm = (6, 3) if scale.quick else (40, _WARM_S)
    with LocalBroker() as broker:
        for name, apart in (("one process", False), ("roles apart", True)):
            took, empty = _run(broker, f"l{int(apart)}.", seconds, warm=warm, apart=apart)
            tail, tail_empty = (percentile(each, 0.99) * 1e3 for each in (took, empty))
            half, half_empty = (statistics.median(each) * 1e3 for each in (took, empty))
            yield Row(
                name=f"p99 of an empty transaction, {name}",
                value=tail_empty,
                unit="ms",
                note=f"median {half_empty:.1f} ms",
            )
            yield Row(
                name=f"p99 at {_RATE}/s, {name}",
                value=tail,
                unit="ms",
                note=f"from append to visible; median {half:.1f} ms",
            )
            yield Row(
                name=f"p99 / p99 of an empty transaction, {name}",
                value=tail / tail_empty,
                unit="",
                at_most=5,
                note=f"median / median {half / half_empty:.1f}",
            )
