"""A ledger on Kafka with datasets that have data, and curators in processes of their own."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from accountant.partition import hash_of
from streams.answers import StoredAnswer
from streams.kafka.service.answers import AnswerTopic
from streams.kafka.service.kafka_service import KafkaService
from tests.faults.ledger import Ledger, until, working
from tests.forks import commands
from tests.patience import PATIENCE_S
from tests.streams.curator.curated import member, opened, write_data

STARTS = ("streams.cli",)

DATASETS: Final = ("census", "census-2", "census-3")


class OnKafka:
    """A ledger on Kafka whose worker runs here, and the settings of a curator's process."""

    def __init__(self, ledger: Ledger, service: KafkaService, directory: Path) -> None:
        self.ledger, self.service = ledger, service
        self.directory = directory
        write_data(directory / "census.csv")
        source: dict[str, Any] = {"kind": "csv", "path": str(directory / "census.csv")}
        (directory / "sources.json").write_text(
            json.dumps({"census": source | {"datasets": DATASETS}})
        )

    async def send(self, body: bytes, source: Any = "requests") -> tuple[str, dict[str, Any]]:
        answer = await self.service.submit(source, body, wait=PATIENCE_S)
        assert answer.decision is not None
        return hash_of(answer.decision), json.loads(answer.decision)

    async def ask(self, body: bytes) -> str:
        grant, decision = await self.send(body)
        assert decision["outcome"] in {"granted", "reserved"}, decision
        return grant

    def start(self, name: str, *words: str, **more: str) -> subprocess.Popen[bytes]:
        """Start a command in a process, by default `accountant curator`."""
        settings = {
            **self.variables(),
            "ACCOUNTANT_DATA_SOURCES": str(self.directory / "sources.json"),
            "ACCOUNTANT_CURATOR_TICK_SECONDS": "0.1",
            "ACCOUNTANT_METRICS_PORT": "0",
            **more,
        }
        with (self.directory / f"{name}.log").open("wb") as log:
            return commands.start(
                *(words or ("curator",)),
                env=settings,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def variables(self) -> dict[str, str]:
        """Return the settings by which a command finds the ledger."""
        deployment = self.ledger.deployment
        return {
            "ACCOUNTANT_URL": f"kafka://{deployment.bootstrap}",
            "ACCOUNTANT_APPLICATION": deployment.application,
            "ACCOUNTANT_TOPIC_PREFIX": deployment.topics.prefix,
            "ACCOUNTANT_PARTITIONS": str(deployment.partitions),
        }

    def log(self, name: str) -> bytes:
        """Return what a curator's process has printed."""
        return (self.directory / f"{name}.log").read_bytes()


@asynccontextmanager
async def curated_on_kafka(
    bootstrap: str, application: str, directory: Path
) -> AsyncIterator[OnKafka]:
    """Run a ledger with three datasets, in which `curator` is a curator."""
    async with Ledger(bootstrap, application, partitions=2) as ledger, working(ledger):
        service = await KafkaService.start(ledger.deployment)
        made = OnKafka(ledger, service, directory)
        for name in DATASETS:
            body = opened(name, population="people")
            assert (await made.send(body, "admin"))[1]["outcome"] == "opened"
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

    async with asyncio.timeout(PATIENCE_S):
        await look()
    return found[0]


async def address_of(on_kafka: OnKafka) -> str:
    """Wait until the gateway's process listens; return its address."""
    await until(lambda: b"listening at http" in on_kafka.log("gateway"), "it listens")
    found = re.search(rb"listening at (http://[0-9.:]+)", on_kafka.log("gateway"))
    assert found
    return found[1].decode()
