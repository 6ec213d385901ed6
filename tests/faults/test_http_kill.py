"""Answers over HTTP agree with the log, over kills of servers and workers."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from streams.testing import LocalBroker
from tests.faults import oracle
from tests.faults.edges import Edges
from tests.faults.ledger import Ledger, new_id, opening, request
from tests.faults.oracle import Answer
from tests.faults.server_process import Bodies, Clients, ServerProcess
from tests.faults.sqlite_life import copied
from tests.faults.worker_process import WorkerProcess
from tests.nightly import rounds

pytestmark = pytest.mark.faults

KILLS: Final = rounds(2, 12)
NAMES: Final = ("ds-0", "ds-1", "ds-2")
COSTS: Final = ("0.001", "0.02", "0.3")


def bodies(edges: Edges, seed: int) -> Bodies:
    chance = random.Random(seed)

    def make() -> bytes:
        return request(chance.choice(NAMES), epsilon=chance.choice(COSTS))

    def another(body: bytes) -> bytes:
        return json.dumps({**json.loads(body), "purpose": "another"}).encode()

    return Bodies(make, lambda: edges.take(1)[0], another, seed)


def missing_kinds(answers: Sequence[Answer]) -> set[object]:
    """Return the statuses and outcomes of which there was no answer yet."""
    shown = [json.loads(answer.content) for answer in answers if answer.status == 200]
    seen = {*(answer.status for answer in answers), *(each["outcome"] for each in shown)}
    return {200, 409, 422, "granted", "refused", "repeated", "expired"} - seen


def check_answers(answers: list[Answer], decisions: list[bytes]) -> None:
    """Check the answers, and that there were some of every kind."""
    decided = oracle.check_answers(answers, decisions)
    assert decided > 50
    assert not missing_kinds(answers)


def test_a_killed_servers_answers_agree_with_its_log(tmp_path: Path) -> None:
    begun = time.time_ns() // 1_000_000
    file = tmp_path / "ledger.db"
    edges = Edges(lambda at: request("ds-0", epsilon="0.001", request_id=new_id(at)), begun)
    clients = Clients(bodies(edges, 1).draw)
    settings = {"ACCOUNTANT_URL": f"sqlite:///{file}"}
    with ServerProcess("serve", tmp_path / "serve.log", settings) as server:
        server.start()
        for name in NAMES:
            clients.open(server.address, opening(name, epsilon="1", delta="1e-6"))
        with clients.asking(lambda: server.address):
            for number in range(KILLS):
                clients.wait_for(150)
                time.sleep(random.Random(number).uniform(0, 0.05))
                server.kill()
                server.start()
            clients.wait_for_kinds(missing_kinds)
    found = oracle.contents(copied(file, tmp_path / "copy"))
    now = time.time_ns() // 1_000_000
    judged = oracle.judge_file(found, oracle.inputs_of(found, clients.sent, (begun, now)))
    check_answers(clients.answers, list(found.decisions))
    assert len(judged.decisions) > clients.decided / 2


async def test_a_gateways_answers_agree_with_the_log_though_its_worker_is_killed(
    broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=2) as ledger:
        deployment = ledger.deployment
        settings = {
            "ACCOUNTANT_URL": f"kafka://{deployment.bootstrap}",
            "ACCOUNTANT_APPLICATION": deployment.application,
            "ACCOUNTANT_TOPIC_PREFIX": deployment.topics.prefix,
            "ACCOUNTANT_PARTITIONS": str(deployment.partitions),
        }
        clients = Clients(bodies(ledger.edges(*NAMES), 2).draw)
        worker = WorkerProcess(ledger, "w1", tmp_path)
        worker.start()
        try:
            with ServerProcess("gateway", tmp_path / "gateway.log", settings) as server:
                await asyncio.to_thread(ask_across_kills, server, worker, clients)
            # The worker continues: requests of a killed gateway may reach the log late.
            verdict = await ledger.judged()
        finally:
            worker.kill()
        topic = oracle.read(broker.bootstrap, ledger.topic("decisions"), 2)
        decisions = [record.value or b"" for partition in topic for record in partition]
        check_answers(clients.answers, decisions)
        assert verdict.outcomes["granted"] > 20


def ask_across_kills(server: ServerProcess, worker: WorkerProcess, clients: Clients) -> None:
    server.start()
    for name in NAMES:
        clients.open(server.address, opening(name, epsilon="1", delta="1e-6"))
    with clients.asking(lambda: server.address):
        for number in range(KILLS):
            clients.wait_for(100)
            worker.kill()
            if number % 2:
                server.kill()
                server.start()
            worker.start()
        clients.wait_for_kinds(missing_kinds)
