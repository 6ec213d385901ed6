"""500 requests a second on the broker: from one's append to seeing its decision."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from collections.abc import Iterator
from typing import Any

import msgspec
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from benchmarks import requests
from benchmarks.kafka_load import ask_steadily, deploy, open_all, producer
from benchmarks.measure import Row, Scale, percentile
from benchmarks.processes import command, free_port, worker_settings
from streams.kafka.producer import RETRY_BACKOFF_MS
from streams.testing import LocalBroker
from streams.topics import Deployment

_RATE = 500
_PARTITIONS = 4
_DATASETS = 200
_TRANSACTIONS = 200
_TURNS = 5
# Until then the broker's Java machine takes a core to compile what the load has made hot, and a
# transaction takes thrice as long.
_WARM_S = 40


class _Id(msgspec.Struct, frozen=True):
    request_id: str = ""


class _Decided(msgspec.Struct):
    request: _Id = _Id()


_decode = msgspec.json.Decoder(_Decided).decode


async def _empty_transactions(deployment: Deployment) -> list[float]:
    """Return the seconds of transactions that write one byte and nothing else."""
    client = AIOKafkaProducer(
        bootstrap_servers=deployment.bootstrap,
        transactional_id="empty",
        linger_ms=0,
        retry_backoff_ms=RETRY_BACKOFF_MS,
    )
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


async def _watch(consumer: AIOKafkaConsumer, seen: dict[str, float]) -> None:
    while True:
        got = await consumer.getmany(timeout_ms=100)
        now = time.time()
        for records in got.values():
            for record in records:
                seen.setdefault(_decode(record.value).request.request_id, now)


async def _open_loop(deployment: Deployment, seconds: float) -> list[float]:
    """Send at a steady rate, whatever comes back; return each request's seconds.

    They begin with the broker's own time of the append, which has whole milliseconds.
    """
    consumer = AIOKafkaConsumer(
        bootstrap_servers=deployment.bootstrap,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="latest",
        fetch_max_wait_ms=20,
    )
    await consumer.start()
    decisions = deployment.topics.decisions
    consumer.assign([TopicPartition(decisions, i) for i in range(_PARTITIONS)])
    await consumer.seek_to_end()
    names = requests.names(_DATASETS)
    sent: dict[str, Any] = {}
    seen: dict[str, float] = {}
    watching = asyncio.create_task(_watch(consumer, seen))
    async with producer(deployment.bootstrap, linger_ms=0) as client:
        async for body, appended in ask_steadily(client, deployment, names, _RATE, seconds):
            sent[msgspec.json.decode(body, type=_Id).request_id] = appended
        for _ in range(200):
            if sent.keys() <= seen.keys():
                break
            await asyncio.sleep(0.05)
    watching.cancel()
    await asyncio.wait([watching])
    await consumer.stop()
    missing = len(sent.keys() - seen.keys())
    if missing:
        raise RuntimeError(f"{missing} requests were not decided within 10 s")
    return [seen[name] - (await appended).timestamp / 1000 for name, appended in sent.items()]


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
        asyncio.run(_open_loop(deployment, warm))
        took, empty = [], []
        for _ in range(_TURNS):  # in turns, so that whoever else uses the machine slows both
            empty += asyncio.run(_empty_transactions(deployment))
            took += asyncio.run(_open_loop(deployment, seconds / _TURNS))
    return took, empty


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the tail of the latency against an empty transaction's, in one process and apart."""
    seconds, warm = (6, 3) if scale.quick else (20, _WARM_S)
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
