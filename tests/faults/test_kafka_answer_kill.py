"""Workers are killed and paused between requests that wait, asks for more, and their answers."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import pytest

from accountant.partition import hash_of
from streams.testing import LocalBroker
from tests.faults.ledger import Ledger, new_id, request, until
from tests.faults.test_kafka_kill import partitions_of, replayed, take_over
from tests.faults.worker_process import WorkerProcess, running
from tests.nightly import rounds

pytestmark = pytest.mark.faults

LEDGERS: Final = rounds(1, 5)
KILLS: Final = rounds(2, 10)
TAKEOVERS: Final = rounds(1, 2)
DATASETS: Final = [f"plans-{number}" for number in range(4)]
POLICY: Final = {"filter": "basic", "epsilon": "900", "approve_above": "1e-5", "access": "anyone"}
OWNERS: Final = ("olga", "otto")
COST: Final = "0.02"
SEVERAL: Final = 3
"""How often each answer is sent, with the same bytes: it must count once."""


def record(dataset: str, kind: str, by: str, **fields: Any) -> bytes:
    head = {"version": 1, "type": kind, "request_id": new_id(), "dataset": dataset, "by": by}
    return json.dumps({**head, **fields}).encode()


@pytest.mark.parametrize("seed", range(LEDGERS))
async def test_each_request_and_each_ask_is_answered_once_whatever_is_killed(
    broker: LocalBroker, application: str, tmp_path: Path, seed: int
) -> None:
    draw = random.Random(seed)
    ledger = Ledger(broker.bootstrap, application)
    async with ledger:
        fields = {"policy": POLICY, "owners": OWNERS, "budget": {"epsilon": "400"}}
        await ledger.send_all(
            (record(name, "open", "olga", **fields) for name in DATASETS), topic="admin"
        )
        workers = [WorkerProcess(ledger, name, tmp_path) for name in ("w1", "w2")]
        with running(workers):
            for each in workers:
                await until(lambda each=each: len(partitions_of(each, 0) or ()) == 2, "two each")
            await ledger.settle()
            for number in range(KILLS):
                worker = workers[number % 2]
                answers = asyncio.create_task(ask_and_answer(ledger, draw, 401 + number))
                await asyncio.sleep(draw.uniform(0, 1.5))
                worker.kill()
                since = worker.mark()
                worker.start()
                await answers
                await until(
                    lambda since=since, worker=worker: len(replayed(worker, since)) >= 2, "serves"
                )
            for number in range(TAKEOVERS):
                answers = asyncio.create_task(ask_and_answer(ledger, draw, 500 + number))
                await take_over(workers[number % 2], workers[1 - number % 2])
                await answers
            await ledger.settle()
        verdict = await ledger.judged()
    check(verdict.decisions)


async def ask_and_answer(ledger: Ledger, draw: random.Random, amount: int) -> None:
    """Ask on every dataset, for a claim and for a larger budget, and answer what waits."""
    more = {"wants": "budget", "budget": {"epsilon": str(amount)}, "reason": "for table 4"}
    asked = []
    for name in DATASETS:
        waits = await ledger.send(request(name, epsilon=COST))
        place = await ledger.send(record(name, "more", "ana", **more), topic="admin")
        asked.append((name, waits, place))
    for name, waits, place in asked:
        pending = hash_of(await ledger.logged(waits))
        kind = draw.choice(["approve", "approve", "deny"])
        number = (await ledger.decision(place))["sequence"]
        answer = record(name, "budget", "otto", budget=more["budget"], answers=number)
        if draw.random() < 0.3:
            fields = {"ask": number, "asker": "ana", "reason": "not now"}
            answer = record(name, "decline", "otto", **fields)
        first = record(name, kind, "olga", pending=pending, reason="table 4")
        for _ in range(SEVERAL):
            await ledger.send(first, topic="admin")
            await ledger.send(answer, topic="admin")
        # What another owner says afterwards comes too late.
        await ledger.send(record(name, "approve", "otto", pending=pending), topic="admin")


def check(decisions: list[dict[str, Any]]) -> None:
    """Check from the decisions alone that each was answered once; the oracle judges the rest."""
    met = Counter(str(each.get("reason") or each["outcome"]) for each in decisions)
    count = len(DATASETS) * (KILLS + TAKEOVERS)
    assert met["pending"] == met["more_asked"] == count
    assert met["granted"] + met["denied"] == count == met["already_answered"]
    assert met["budget_set"] + met["more_declined"] == count
    answered = [
        (each["dataset"], each["answers"])
        for each in decisions
        if each["outcome"] in {"budget_set", "more_declined"}
    ]
    waited = [
        each["pending"]["request"]
        for each in decisions
        if each["outcome"] == "granted" or each.get("reason") == "denied"
    ]
    assert len(set(answered)) == len(answered) == len(set(waited)) == len(waited)
    for name in DATASETS:
        own = [each for each in decisions if each.get("dataset") == name and each.get("totals")]
        grants = sum(each["outcome"] == "granted" for each in own)
        assert Fraction(own[-1]["totals"]["epsilon"]) == Fraction(COST) * grants
