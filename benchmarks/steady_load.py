"""Requests at a steady rate, independent of the answers, and the times of their decisions.

With librdkafka, whose threads take a tenth of a core at 500/s where clients in Python take a third:
the load shares the machine with what is measured.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any, Final

import msgspec
from confluent_kafka import Consumer, Producer, TopicPartition

from accountant.partition.key_hash import partition_of
from benchmarks import requests
from streams.kafka.deployment import Deployment

_PATIENCE_S: Final = 10.0
_POLL_S: Final = 0.1


class _Id(msgspec.Struct, frozen=True):
    request_id: str = ""


class _Decided(msgspec.Struct):
    request: _Id = _Id()


_id_of = msgspec.json.Decoder(_Id).decode
_decided = msgspec.json.Decoder(_Decided).decode


class Watch:
    """By request id: when its decision was read first, in seconds since 1970."""

    def __init__(self, consumer: Consumer) -> None:
        self.first_seen: dict[str, float] = {}
        self._consumer = consumer
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch")

    def _run(self) -> None:
        while not self._ended.is_set():
            message = self._consumer.poll(_POLL_S)
            now = time.time()
            if message is not None and message.error() is None:
                decided = _decided(message.value() or b"{}")
                self.first_seen.setdefault(decided.request.request_id, now)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._consumer.close()


def watch(deployment: Deployment) -> Watch:
    """Return a context that watches the decisions from its start on."""
    consumer = Consumer(
        {
            "bootstrap.servers": deployment.bootstrap,
            "group.id": "benchmark",  # required by the client, but unused
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 20,
        }
    )
    starts = []
    for number in range(deployment.partitions):
        tp = TopicPartition(deployment.topics.decisions, number)
        tp.offset = consumer.get_watermark_offsets(tp, timeout=_PATIENCE_S)[1]
        starts.append(tp)
    consumer.assign(starts)
    return Watch(consumer)


def _appended(into: dict[str, float], request_id: str, error: Any, message: Any) -> None:
    if error is not None:
        raise RuntimeError(f"a request was not appended: {error}")
    into[request_id] = message.timestamp()[1] / 1000


def ask_steadily(
    deployment: Deployment, datasets: list[str], rate: int, seconds: float
) -> dict[str, float]:
    """Append this number of requests a second, independent of the answers.

    Returns: the broker's own time of each append, in seconds since 1970 (it has whole
        milliseconds), by request id.
    """
    appended: dict[str, float] = {}
    client = Producer({"bootstrap.servers": deployment.bootstrap, "linger.ms": 0, "acks": "all"})
    begun = time.perf_counter()
    for i in range(int(seconds * rate)):
        ahead = begun + i / rate - time.perf_counter()
        if ahead > 0:
            time.sleep(ahead)
        name = datasets[i % len(datasets)]
        body = requests.request(name, requests.now(), i)
        key = name.encode()
        client.produce(
            deployment.topics.requests,
            body,
            key=key,
            partition=partition_of(key, deployment.partitions),
            on_delivery=partial(_appended, appended, _id_of(body).request_id),
        )
        client.poll(0)
    if client.flush(_PATIENCE_S):
        raise RuntimeError("requests were not appended")
    return appended


def latencies(
    deployment: Deployment, datasets: list[str], rate: int, seconds: float
) -> list[float]:
    """Return the seconds of each request from its append to its visible decision."""
    with watch(deployment) as watching:
        appended = ask_steadily(deployment, datasets, rate, seconds)
        deadline = time.monotonic() + _PATIENCE_S
        while not appended.keys() <= watching.first_seen.keys():
            if time.monotonic() > deadline:
                missing = len(appended.keys() - watching.first_seen.keys())
                raise RuntimeError(
                    f"{missing} requests were not decided within {_PATIENCE_S:.0f} s"
                )
            time.sleep(0.05)
    return [watching.first_seen[name] - at for name, at in appended.items()]
