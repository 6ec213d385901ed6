"""`accountant worker` as in production: a process, its group, its gauges, its read side."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from accountant.times import uuid7
from streams.kafka.deployment import Deployment, TopicNames
from streams.kafka.log import topics
from streams.kafka.service.kafka_service import KafkaService
from streams.testing import LocalBroker
from tests.forks import commands
from tests.patience import PATIENCE_S

STARTS = ("streams.cli", "streams.worker.app", "streams.app")


def deployment(broker: LocalBroker, application: str) -> Deployment:
    return Deployment(
        bootstrap=broker.bootstrap,
        application=application,
        topics=TopicNames(f"{application}."),
        partitions=4,
    )


class WorkerProcess:
    """One worker in a process of its own."""

    def __init__(self, where: Deployment, name: str, log: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.log = log / f"{name}.log"
        environment = {
            **os.environ,
            "ACCOUNTANT_URL": f"kafka://{where.bootstrap}",
            "ACCOUNTANT_APPLICATION": where.application,
            "ACCOUNTANT_TOPIC_PREFIX": where.topics.prefix,
            "ACCOUNTANT_PARTITIONS": str(where.partitions),
            "ACCOUNTANT_INSTANCE_ID": name,
            "ACCOUNTANT_METRICS_PORT": str(self.port),
        }
        with self.log.open("ab") as out:
            self.process = commands.start("worker", env=environment, stdout=out, stderr=out)

    def get(self, path: str) -> tuple[int, str]:
        """Return (status, body), status 0 while no process listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as got:
                return got.status, got.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def gauges(self, name: str) -> dict[str, float]:
        """Return the samples of one metric by their labels."""
        _, text = self.get("/metrics")
        lines = [line for line in text.splitlines() if line.startswith(name + "{")]
        return {
            line[len(name) : line.rindex("}") + 1]: float(line[line.rindex(" ") :])
            for line in lines
        }

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(PATIENCE_S)


@contextmanager
def workers(where: Deployment, log: Path) -> Iterator[Callable[[str], WorkerProcess]]:
    started: list[WorkerProcess] = []

    def start(name: str) -> WorkerProcess:
        started.append(WorkerProcess(where, name, log))
        return started[-1]

    try:
        yield start
    finally:
        for worker in started:
            if worker.process.poll() is None:
                worker.process.kill()
                worker.process.wait()


async def until(what: str, holds: Callable[[], bool], log: Path | None = None) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not await asyncio.to_thread(holds):
        shown = log.read_text()[-3000:] if log else ""  # noqa: ASYNC240 (only on failure)
        assert time.monotonic() < deadline, f"{what} did not come about\n{shown}"
        await asyncio.sleep(0.1)


def request_id() -> str:
    return uuid7(time.time_ns() // 1_000_000, os.urandom(10))


def opening(dataset: str) -> bytes:
    policy = {"epsilon": "1", "delta": "1e-6"}
    return json.dumps(
        {
            "version": 1,
            "type": "open",
            "request_id": request_id(),
            "dataset": dataset,
            "by": "owner",
            "policy": policy,
        }
    ).encode()


def asking(dataset: str, epsilon: str) -> bytes:
    return json.dumps(
        {
            "version": 1,
            "type": "request",
            "request_id": request_id(),
            "analyst": "ana",
            "dataset": dataset,
            "claim": {"type": "pure", "epsilon": epsilon},
            "unit": "person",
            "neighbours": "add_remove",
        }
    ).encode()


async def decided(service: KafkaService, source: Any, body: bytes) -> dict[str, Any]:
    answer = await service.submit(source, body, wait=PATIENCE_S)
    assert answer.decision is not None
    return dict(json.loads(answer.decision))


@pytest.fixture
async def where(broker: LocalBroker, application: str) -> Deployment:
    made = deployment(broker, application)
    await topics.create(made)
    return made


@pytest.fixture
async def service(where: Deployment) -> AsyncIterator[KafkaService]:
    running = await KafkaService.start(where)
    yield running
    await running.close()


async def test_partitions_and_gauges_move_when_a_worker_joins_and_leaves(
    where: Deployment, service: KafkaService, tmp_path: Path
) -> None:
    names = [f"d{i}" for i in range(12)]
    with workers(where, tmp_path) as start:
        first = start("first")
        for name in names:
            assert (await decided(service, "admin", opening(name)))["outcome"] == "opened"
        await until(
            "all datasets on one worker",
            lambda: len(first.gauges("privacy_filter_spent_ratio")) == len(names),
            first.log,
        )
        second = start("second")

        def shared() -> bool:
            one = first.gauges("privacy_filter_spent_ratio").keys()
            other = second.gauges("privacy_filter_spent_ratio").keys()
            return bool(one) and bool(other) and len(one | other) == len(names) and not one & other

        await until("the datasets shared, each exported once", shared, second.log)
        outcomes = [
            (await decided(service, "requests", asking(n, "0.01")))["outcome"] for n in names
        ]
        assert outcomes == ["granted"] * len(names)
        assert second.stop() == 0
        await until(
            "all datasets back on the first",
            lambda: len(first.gauges("privacy_filter_spent_ratio")) == len(names),
            first.log,
        )
        spent = first.gauges("privacy_filter_spent_ratio")
        assert all(ratio > 0 for ratio in spent.values())
        assert first.stop() == 0


async def test_tables_have_idle_datasets_after_a_restart_and_alerts_have_a_stable_id(
    where: Deployment, service: KafkaService, tmp_path: Path
) -> None:
    with workers(where, tmp_path) as start:
        worker = start("one")
        await decided(service, "admin", opening("census"))
        for _ in range(4):
            await decided(service, "requests", asking("census", "0.1"))
        await until(
            "the table shows the grants",
            lambda: '"mechanisms":4' in worker.get("/datasets/census")[1],
            worker.log,
        )
        assert worker.stop() == 0
        again = start("one")
        await until(
            "the idle dataset is in the table again",
            lambda: '"mechanisms":4' in again.get("/datasets/census")[1],
            again.log,
        )
        _, shown = again.get("/datasets/census")
        assert json.loads(shown)["dataset"]["crossed"] == ["0.5", "0.8"]
        assert await asyncio.to_thread(alert_ids, where) == {"census/1/0.5", "census/1/0.8"}


def alert_ids(where: Deployment) -> set[str]:
    """Read the alerts as another client would, until both thresholds are there or time is up."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": where.bootstrap,
            "group.id": "stranger",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign(
        [confluent_kafka.TopicPartition(where.topics.alerts, i, 0) for i in range(where.partitions)]
    )
    ids: set[str] = set()
    deadline = time.monotonic() + PATIENCE_S
    while len(ids) < 2 and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and not message.error():
            ids.add(json.loads(message.value())["alert_id"])
    consumer.close()
    return ids


async def test_wrong_topics_refuse_the_start_and_name_the_command(
    broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    missing = deployment(broker, application)
    with workers(missing, tmp_path) as start:
        worker = start("one")
        assert await asyncio.to_thread(worker.process.wait, PATIENCE_S) != 0
    assert "accountant topics create" in worker.log.read_text()


async def test_readyz_reports_a_broker_outage_and_its_end(
    own_broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    where = deployment(own_broker, application)
    await topics.create(where)
    with workers(where, tmp_path) as start:
        worker = start("one")
        await until("ready", lambda: worker.get("/readyz")[0] == 200, worker.log)
        await asyncio.to_thread(own_broker.kill)
        await until("not ready", lambda: worker.get("/readyz")[0] == 503, worker.log)
        assert "broker" in worker.get("/readyz")[1]
        assert worker.get("/healthz")[0] == 200
        await asyncio.to_thread(own_broker.start)
        await until("ready again", lambda: worker.get("/readyz")[0] == 200, worker.log)
        assert worker.process.poll() is None
        assert worker.stop() == 0


@pytest.mark.parametrize(
    "command", [["accountant", "worker"], ["faust", "-A", "streams.app", "worker"]]
)
def test_a_worker_without_topics_names_the_command_in_one_line(
    broker: LocalBroker, application: str, command: list[str]
) -> None:
    program, *arguments = command
    done = subprocess.run(
        [Path(sys.executable).with_name(program), *arguments],
        env={
            **os.environ,
            "ACCOUNTANT_URL": f"kafka://{broker.bootstrap}",
            "ACCOUNTANT_TOPIC_PREFIX": f"{application}.",
            "ACCOUNTANT_METRICS_PORT": "0",
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == (4 if program == "accountant" else 1), done.stderr
    *before, last = done.stderr.splitlines()
    assert last.startswith("error: missing topics: ")
    assert last.endswith("Run `accountant topics create`")
    for word in ("missing topics", "crash", "Traceback", "Reraising"):
        assert not [line for line in before if word.lower() in line.lower()], done.stderr
