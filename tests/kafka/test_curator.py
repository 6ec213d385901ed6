"""A curator of a ledger on Kafka: answers in a topic, and one writer at a time."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from accountant.answers import decode_answer
from accountant.partition import hash_of
from streams.answers import StoredAnswer
from streams.kafka.answers import AnswerTopic
from streams.kafka.service import KafkaService
from streams.server.monitoring import with_answers
from streams.testing import LocalBroker
from tests.faults.ledger import Ledger, until, working
from tests.streams.curator.curated import member, opened, question, session, write_data

pytestmark = pytest.mark.kafka
_NAMES = ("census", "census-2", "census-3")


class OnKafka:
    """A ledger on Kafka whose worker runs here, and the settings of a curator's process."""

    def __init__(self, ledger: Ledger, service: KafkaService, directory: Path) -> None:
        self.ledger, self.service = ledger, service
        self.directory = directory
        write_data(directory / "census.csv")
        source = {"kind": "csv", "path": str(directory / "census.csv")}
        (directory / "sources.json").write_text(json.dumps({"census": source}))

    async def send(self, body: bytes, source: Any = "requests") -> tuple[str, dict[str, Any]]:
        answer = await self.service.submit(source, body, wait=60)
        assert answer.decision is not None
        return hash_of(answer.decision), json.loads(answer.decision)

    async def ask(self, body: bytes) -> str:
        grant, decision = await self.send(body)
        assert decision["outcome"] in {"granted", "reserved"}, decision
        return grant

    def start(self, name: str) -> subprocess.Popen[bytes]:
        """Start `accountant curator` in a process."""
        deployment = self.ledger.deployment
        settings = {
            "ACCOUNTANT_URL": f"kafka://{deployment.bootstrap}",
            "ACCOUNTANT_APPLICATION": deployment.application,
            "ACCOUNTANT_TOPIC_PREFIX": deployment.topics.prefix,
            "ACCOUNTANT_PARTITIONS": str(deployment.partitions),
            "ACCOUNTANT_DATA_SOURCES": str(self.directory / "sources.json"),
            "ACCOUNTANT_CURATOR_TICK_SECONDS": "0.1",
            "ACCOUNTANT_METRICS_PORT": "0",
        }
        with (self.directory / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "streams.cli", "curator"],
                env=settings,
                stdout=log,
                stderr=subprocess.STDOUT,
            )


@pytest.fixture
async def on_kafka(broker: LocalBroker, application: str, tmp_path: Path) -> AsyncIterator[OnKafka]:
    async with Ledger(broker.bootstrap, application, partitions=2) as ledger, working(ledger):
        service = await KafkaService.start(ledger.deployment)
        made = OnKafka(ledger, service, tmp_path)
        for name in _NAMES:
            assert (await made.send(opened(name), "admin"))[1]["outcome"] == "opened"
            await made.send(member("curator", "curator", dataset=name), "admin")
        yield made
        await service.close()


async def answer_of(topic: AnswerTopic, grant: str) -> StoredAnswer:
    found: list[StoredAnswer] = []

    async def look() -> None:
        while not found:
            stored = await topic.get(grant)
            if stored is not None:
                found.append(stored)
            await asyncio.sleep(0.05)

    async with asyncio.timeout(60):
        await look()
    return found[0]


async def test_curators_take_over_from_one_another(on_kafka: OnKafka) -> None:
    topic = await AnswerTopic.start(on_kafka.ledger.deployment)
    first = on_kafka.start("first")
    second: subprocess.Popen[bytes] | None = None
    try:
        await until(lambda: b"worker_listens" in read(on_kafka, "first"), "the first one runs")
        grants = [await on_kafka.ask(question(name)) for name in _NAMES]
        grants.append(await on_kafka.ask(session(dataset="census")))
        before = [await answer_of(topic, each) for each in grants]
        assert {decode_answer(each.value).outcome for each in before} == {"answered"}
        second = on_kafka.start("second")
        await until(lambda: b"worker_listens" in read(on_kafka, "second"), "the second one runs")
        later = [await on_kafka.ask(question(name)) for name in _NAMES]
        for grant in later:
            assert decode_answer((await answer_of(topic, grant)).value).outcome == "answered"
        await until(lambda: first.poll() is not None, "the first one has ended, at its next write")
        assert first.returncode == 4, read(on_kafka, "first")
        assert b"another curator has started" in read(on_kafka, "first")
        assert [await topic.get(each) for each in grants] == before
        find = on_kafka.service.open_reservation
        await until(lambda: find("census", grants[-1]) is None, "the session is settled")
        second.send_signal(signal.SIGTERM)
        await until(lambda: second.poll() is not None, "it ends by a signal")
        assert second.returncode == 0, read(on_kafka, "second")
    finally:
        for each in (first, second):
            if each is not None and each.poll() is None:
                each.kill()
                each.wait()
        await topic.close()


def read(on_kafka: OnKafka, name: str) -> bytes:
    return (on_kafka.directory / f"{name}.log").read_bytes()


async def test_a_reader_that_ends_at_a_record_says_so(on_kafka: OnKafka) -> None:
    deployment = on_kafka.ledger.deployment
    topic = await AnswerTopic.start(deployment)
    try:
        producer = Producer({"bootstrap.servers": deployment.bootstrap})
        producer.produce(deployment.topics.answers, b"forged", partition=0)
        assert await asyncio.to_thread(producer.flush, 30) == 0
        await until(lambda: topic.trouble is not None, "it has ended")
        state = with_answers(on_kafka.service.readiness, topic)()
        assert state.ready
        assert "no record of this version" in " ".join(state.notes)
    finally:
        await topic.close()
