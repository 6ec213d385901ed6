"""500 requests a second on a broker: from a decision to its record on `alerts`."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition

from accountant.times import from_iso
from accountant.views.datasets import Alert, decode_alert
from benchmarks import requests
from benchmarks.kafka_load import append, deploy
from benchmarks.measure import Row, Scale, percentile
from benchmarks.processes import command, free_port, worker_settings
from benchmarks.steady_load import ask_steadily
from streams.kafka.deployment import Deployment
from streams.testing import LocalBroker

_RATE = 500
_PARTITIONS = 4
_DATASETS = 200
_PATIENCE_S = 30.0
# Twenty thresholds, the maximum: nearly every other request reaches one.
_POLICY = {
    "filter": "basic",
    "epsilon": "1",
    "alert_at": [f"{number / 500:.3f}" for number in range(1, 21)],
}


class _AlertReader:
    """A reader of the topic: the alerts, and the time at which each came first."""

    def __init__(self) -> None:
        self.first: dict[str, tuple[Alert, float]] = {}
        self.records = 0

    async def watch(self, consumer: AIOKafkaConsumer) -> None:
        while True:
            got = await consumer.getmany(timeout_ms=100)
            now = time.time()
            for records in got.values():
                for record in records:
                    alert = decode_alert(record.value)
                    self.records += 1
                    self.first.setdefault(alert.alert_id, (alert, now))


class _ReachedThreshold(msgspec.Struct):
    dataset: str | None = None
    crossed: tuple[str, ...] = ()


_decode = msgspec.json.Decoder(_ReachedThreshold).decode


async def _reader(deployment: Deployment, topic: str) -> AIOKafkaConsumer:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=deployment.bootstrap,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=20,
    )
    await consumer.start()
    consumer.assign([TopicPartition(topic, i) for i in range(_PARTITIONS)])
    await consumer.seek_to_beginning()
    return consumer


async def _crossings(deployment: Deployment, asked: int) -> set[str]:
    """Return the thresholds that the log says were reached, once every request is decided."""
    consumer = await _reader(deployment, deployment.topics.decisions)
    found: set[str] = set()
    expected, decided = _PARTITIONS + _DATASETS + asked, 0
    deadline = time.monotonic() + _PATIENCE_S
    try:
        while decided < expected:
            for records in (await consumer.getmany(timeout_ms=100)).values():
                decided += len(records)
                for each in (_decode(record.value) for record in records):
                    found |= {f"{each.dataset}/1/{ratio}" for ratio in each.crossed}
            if time.monotonic() > deadline:
                raise RuntimeError(f"{expected - decided} requests were not decided")
    finally:
        await consumer.stop()
    return found


async def _run(deployment: Deployment, seconds: float) -> tuple[list[float], int]:
    """Return the seconds from each decision to its alert, and the number of alerts.

    They start at the decision's own time, before its commit, and end when a consumer
    has the alert: the commit, the relay's read of it and the alert's own append all lie in between.
    """
    reader = _AlertReader()
    consumer = await _reader(deployment, deployment.topics.alerts)
    watching = asyncio.create_task(reader.watch(consumer))
    try:
        names = requests.names(_DATASETS)
        await asyncio.to_thread(ask_steadily, deployment, names, _RATE, seconds)
        expected = await _crossings(deployment, int(seconds * _RATE))
        deadline = time.monotonic() + _PATIENCE_S
        while not expected <= reader.first.keys():
            if time.monotonic() > deadline:
                lost = len(expected - reader.first.keys())
                raise RuntimeError(f"{lost} of {len(expected)} crossings never came out")
            await asyncio.sleep(0.1)
    finally:
        watching.cancel()
        await asyncio.wait([watching])
        await consumer.stop()
    if reader.first.keys() != expected:
        raise RuntimeError("an alert came of what was never crossed")
    took = [at - from_iso(alert.decided_at) / 1000 for alert, at in reader.first.values()]
    return took, reader.records


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the tail of the delay from a reached threshold to its alert on the topic."""
    seconds = 8 if scale.quick else 20
    with LocalBroker() as broker:
        deployment = asyncio.run(deploy(broker, "a.", _PARTITIONS))
        at = requests.now()
        openings = [(n, requests.opening(n, at, _POLICY)) for n in requests.names(_DATASETS)]
        asyncio.run(append(deployment, deployment.topics.admin, openings))
        port = free_port()
        with command("worker", worker_settings(deployment, port, read_side=True), port=port):
            took, records = asyncio.run(_run(deployment, seconds))
        note = f"{len(took)} crossings, {records - len(took)} repeats"
        yield Row(
            name=f"p99 from a decision to its alert at {_RATE}/s",
            value=percentile(took, 0.99),
            unit="s",
            at_most=1.0,
            note=f"median {statistics.median(took):.2f} s, longest {max(took):.2f} s; {note}",
        )
