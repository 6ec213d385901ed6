"""Each process of a ledger on Kafka ends after one signal, whatever else was stopped before."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from accountant.partition import hash_of
from accountant.views.heads import ledger_of
from streams.kafka.service.answers import AnswerTopic, KafkaAnswers
from streams.kafka.service.kafka_service import KafkaService
from streams.tasks.stop_limit import CUT
from streams.testing import LocalBroker
from tests.faults import oracle
from tests.faults.ends import Role, make_slow_source
from tests.faults.ledger import Ledger, until, working
from tests.faults.worker_process import settings_of
from tests.nightly import NIGHTLY
from tests.patience import PATIENCE_S
from tests.streams.curator.curated import SCHEMA, member, opened, question, session, write_data

STARTS = ("streams.cli",)

pytestmark = pytest.mark.faults

_ORDERS: Final = (
    ("worker", "gateway", "curator", "broker"),
    ("gateway", "curator", "broker", "worker"),
    ("curator", "broker", "worker", "gateway"),
    ("broker", "worker", "gateway", "curator"),
    ("broker", "curator", "gateway", "worker"),
    ("curator", "worker", "gateway", "broker"),
    ("worker", "broker", "curator", "gateway"),
    ("gateway", "worker", "broker", "curator"),
)


def start(role: str, ledger: Ledger, directory: Path) -> Role:
    """Start a process of a ledger."""
    settings = {
        **settings_of(ledger),
        "ACCOUNTANT_DATA_SOURCES": str(directory / "sources.json"),
        "ACCOUNTANT_CURATOR_TICK_SECONDS": "0.1",
        "ACCOUNTANT_METRICS_PORT": "0",
        "ACCOUNTANT_CHECKPOINTS": "off",
    }
    port = ("--port", "0") if role == "gateway" else ()
    return Role(role, directory, settings, role, *port)


def prepare(directory: Path) -> None:
    """Write the file of sources, and the one that they name."""
    path = directory / "slow.duckdb"
    make_slow_source(path)
    source = {"kind": "duckdb", "path": str(path), "table": "slow", "threads": 1}
    write_data(directory / "census.csv")
    fast = {"kind": "csv", "path": str(directory / "census.csv")}
    named = {"datasets": ["census"]}
    sources = {"slow": source | named, "census": fast | named}
    (directory / "sources.json").write_text(json.dumps(sources))


async def send(service: KafkaService, body: bytes, source: Any = "requests") -> str:
    answer = await service.submit(source, body, wait=PATIENCE_S)
    assert answer.decision is not None
    outcome = json.loads(answer.decision)["outcome"]
    assert outcome in {"opened", "member_set", "granted", "reserved"}, outcome
    return hash_of(answer.decision)


async def open_dataset(service: KafkaService, *, is_slow: bool = False) -> None:
    source = {"kind": "duckdb", "name": "slow"} if is_slow else SCHEMA["source"]
    schema = SCHEMA | {"source": source}
    await send(service, opened("census", schema=schema), "admin")
    await send(service, member("curator", "curator"), "admin")


def records(ledger: Ledger) -> list[dict[str, Any]]:
    """Return what the topic of answers has."""
    partitions = ledger.deployment.partitions
    found = oracle.read(ledger.bootstrap, ledger.topic("answers"), partitions)
    return [json.loads(each.value or b"") for some in found for each in some]


async def test_a_curator_ends_whose_session_nobody_begins(
    broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    prepare(tmp_path)
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        async with working(ledger):
            service = await KafkaService.start(ledger.deployment)
            await open_dataset(service)
            store = await KafkaAnswers.start(ledger.deployment)
            (first,) = await service.log.read(0, 0, 1)
            await store.open_log(0, ledger_of(first) or hash_of(first), 0)
            await store.close()
            grant = await send(service, session())
            await service.close()
        # No worker decides anything from here on.
        curator = start("curator", ledger, tmp_path)
        try:
            topic = await AnswerTopic.start(ledger.deployment)
            await until(lambda: topic._tables.step(grant, "begin"), "its step is stored")
            await topic.close()
            await until(lambda: curator.says("worker_listens"), "it listens to signals")
            assert await asyncio.to_thread(curator.end, signal.SIGTERM) == 0, curator.log
        finally:
            curator.kill()


@pytest.mark.skipif(not NIGHTLY, reason="each starts a broker and three processes")
@pytest.mark.parametrize("order", _ORDERS, ids="-".join)
async def test_each_process_ends_whatever_was_stopped_before(
    own_broker: LocalBroker, application: str, tmp_path: Path, order: tuple[str, ...]
) -> None:
    prepare(tmp_path)
    number = (signal.SIGTERM, signal.SIGINT)[_ORDERS.index(order) % 2]
    async with Ledger(own_broker.bootstrap, application, partitions=2) as ledger:
        roles = {role: start(role, ledger, tmp_path) for role in order if role != "broker"}
        try:
            ready = {"worker": "worker_listens", "curator": "worker_listens"}
            for name, role in roles.items():
                words = ready.get(name, "listening at ")
                await until(lambda role=role, words=words: role.says(words), f"{name} runs")
            service = await KafkaService.start(ledger.deployment)
            await open_dataset(service, is_slow=True)
            plain, reserved = await send(service, question()), await send(service, session())
            await service.close()
            topic = await AnswerTopic.start(ledger.deployment)
            await until(lambda: topic._tables.step(plain, "attempt_1"), "the question runs")
            await until(lambda: topic._tables.step(reserved, "begin"), "the session begins")
            await topic.close()
            for name in order:
                if name == "broker":
                    if "curator" not in roles:
                        check_taken_back(records(ledger), plain)
                    await asyncio.to_thread(own_broker.kill)
                    continue
                role = roles.pop(name)
                code = await asyncio.to_thread(role.end, number)
                assert code == 0 or (code == CUT and "stop_cut" in role.log), role.log
                role.kill()
        finally:
            for role in roles.values():
                role.kill()
            if not own_broker.is_running:
                own_broker.start()


def check_taken_back(found: list[dict[str, Any]], plain: str) -> None:
    """Check that the attempt of a plain question was taken back."""
    kinds = Counter(each["type"] for each in found if each.get("grant") == plain)
    assert kinds == {"step": 1, "taken_back": 1}
