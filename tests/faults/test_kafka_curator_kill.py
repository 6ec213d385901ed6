"""Curators of a ledger on Kafka are killed and paused in turn: each grant has one answer."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from accountant.answers import NoisyAnswer, decode_answer
from accountant.partition import hash_of
from streams.kafka.service.answers import AnswerTopic
from streams.testing import LocalBroker
from tests.faults import oracle
from tests.faults.ledger import until
from tests.faults.settled_sessions import check_session
from tests.kafka.curated_on_kafka import DATASETS, OnKafka, curated_on_kafka
from tests.nightly import NIGHTLY, rounds
from tests.patience import PATIENCE_S
from tests.streams.curator.curated import question, session

STARTS = ()

pytestmark = pytest.mark.faults

TURNS: Final = rounds(4, 40)
MOST_WAITING: Final = 10
"""So many grants may lack an answer: a slow machine gets no more work than it can do."""
_Log = list[tuple[str, dict[str, Any]]]


class Asker:
    """Asks questions one after another, plain ones and sessions, and keeps what readers saw."""

    def __init__(self, on_kafka: OnKafka, topic: AnswerTopic, seed: int) -> None:
        self._on_kafka = on_kafka
        self._topic = topic
        self._chance = random.Random(seed)
        self._stopped = False
        self._sessions = set[str]()
        self.grants = list[str]()
        self.seen: dict[str, set[bytes]] = {}

    def stop(self) -> None:
        """Ask nothing more once the present question is decided."""
        self._stopped = True

    def kinds(self) -> Counter[str]:
        """Count the answers: of plain questions, and of sessions by their outcome."""
        outcomes = {
            grant: decode_answer(min(values)).outcome for grant, values in self.seen.items()
        }
        return Counter(
            outcome if grant in self._sessions else "plain" for grant, outcome in outcomes.items()
        )

    async def run(self) -> None:
        while not self._stopped:
            dataset = self._chance.choice(DATASETS)
            is_session = self._chance.random() < 0.5
            body = session(dataset) if is_session else question(dataset)
            self.grants.append(await self._on_kafka.ask(body))
            if is_session:
                self._sessions.add(self.grants[-1])
            await self.look()
            await asyncio.sleep(self._chance.uniform(0, 0.3))
            while len(self.grants) - len(self.seen) > MOST_WAITING and not self._stopped:
                await asyncio.sleep(0.1)
                await self.look()

    async def look(self) -> None:
        for grant in self.grants:
            stored = await self._topic.get(grant)
            if stored is not None:
                self.seen.setdefault(grant, set()).add(stored.value)


class Curators:
    """Curators in turn: each one takes over from the one before, which is dead or paused.

    A supervisor starts another one where all have ended. One that was paused within a write may
    take over once more, so that each of the two fences the other in one partition.
    """

    def __init__(self, on_kafka: OnKafka) -> None:
        self._on_kafka = on_kafka
        self._running = list[subprocess.Popen[bytes]]()
        self._started = 0

    async def start(self) -> None:
        name = f"curator-{self._started}"
        self._started += 1
        process = self._on_kafka.start(name)
        self._running.append(process)
        await until(
            lambda: b"worker_listens" in self._on_kafka.log(name) or process.poll() is not None,
            f"{name} runs, or has ended",
        )

    async def kill(self) -> None:
        for each in self._running:
            each.kill()
            each.wait()
        self._running.clear()
        await self.start()

    async def pause(self) -> None:
        paused = self._running[-1]
        paused.send_signal(signal.SIGSTOP)
        try:
            await self.start()
        finally:
            paused.send_signal(signal.SIGCONT)
        await until(
            lambda: any(each.poll() is not None for each in self._running),
            "one has ended, since the other has taken over",
        )
        await self.keep_one()

    async def keep_one(self) -> None:
        """Start a curator if none runs."""
        ended = [each for each in self._running if each.poll() is not None]
        assert all(each.returncode == 4 for each in ended)
        self._running = [each for each in self._running if each not in ended]
        if not self._running:
            await self.start()

    def end(self) -> None:
        for each in self._running:
            each.kill()
            each.wait()


@pytest.mark.timeout(3_600 if NIGHTLY else 2_400)
async def test_each_grant_has_one_answer_over_curators_that_are_killed_or_paused(
    broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    chance = random.Random(11)
    async with curated_on_kafka(broker.bootstrap, application, tmp_path) as on_kafka:
        topic = await AnswerTopic.start(on_kafka.ledger.deployment)
        asker, curators = Asker(on_kafka, topic, 11), Curators(on_kafka)
        asking: asyncio.Task[None] | None = None
        try:
            await curators.start()
            # What was granted before the first curator gets no answer.
            asking = asyncio.create_task(asker.run())
            for turn in range(TURNS):
                await asyncio.sleep(chance.uniform(0, 1))
                await (curators.pause() if turn % 2 else curators.kill())
            most, moved = -1, time.monotonic()
            while not (asking.done() or is_enough(kinds := asker.kinds())):
                if kinds.total() > most:
                    most, moved = kinds.total(), time.monotonic()
                assert time.monotonic() - moved < PATIENCE_S, kinds
                await curators.keep_one()
                await asyncio.sleep(0.2)
            asker.stop()
            await asking
            fewest, moved = len(asker.grants) + 1, time.monotonic()
            while left := await unfinished(on_kafka, topic):
                if len(left) < fewest:
                    fewest, moved = len(left), time.monotonic()
                assert time.monotonic() - moved < PATIENCE_S, left
                await curators.keep_one()
                await asyncio.sleep(0.2)
            granted = granted_in(decisions(on_kafka))
            asker.grants = list(granted)
            await asker.look()
        finally:
            if asking is not None:
                asking.cancel()
            curators.end()
            await topic.close()
        check(decisions(on_kafka), granted, asker.seen, records(on_kafka))


async def unfinished(on_kafka: OnKafka, topic: AnswerTopic) -> list[tuple[str, str]]:
    """Return the grants without an answer, and the sessions that the log does not settle."""
    log = await asyncio.to_thread(decisions, on_kafka)
    found = [
        (grant, "has no answer") for grant in granted_in(log) if await topic.get(grant) is None
    ]
    sessions = {grant for grant, each in log if each["outcome"] == "reserved"}
    settled = {each["request"]["grant"] for _, each in log if each["outcome"] == "settled"}
    return found + [(grant, "is not settled") for grant in sessions - settled]


def granted_in(log: _Log) -> set[str]:
    return {grant for grant, each in log if each["outcome"] in {"granted", "reserved"}}


def is_enough(kinds: Counter[str]) -> bool:
    return min(kinds["plain"], kinds["answered"]) > TURNS


def decisions(on_kafka: OnKafka) -> _Log:
    ledger = on_kafka.ledger
    found = oracle.read(ledger.bootstrap, ledger.topic("decisions"), 2)
    values = [each.value for some in found for each in some if each.value is not None]
    return [(hash_of(value), json.loads(value)) for value in values]


def records(on_kafka: OnKafka) -> list[dict[str, Any]]:
    ledger = on_kafka.ledger
    found = oracle.read(ledger.bootstrap, ledger.topic("answers"), 2)
    return [json.loads(each.value or b"") for some in found for each in some]


def check(
    log: _Log, granted: set[str], seen: dict[str, set[bytes]], stored: list[dict[str, Any]]
) -> None:
    assert seen.keys() == granted
    assert all(len(values) == 1 for values in seen.values()), "two answers of one grant"
    written = Counter(each["grant"] for each in stored if each["type"] == "answer")
    assert written == dict.fromkeys(granted, 1)
    spent = {each["grant"] for each in stored if each.get("kind") == "attempt_3"}
    answers: dict[str, NoisyAnswer] = {
        grant: decode_answer(*values) for grant, values in seen.items()
    }
    kinds = Counter[str]()
    for grant, decision in log:
        if decision["outcome"] == "granted":
            failed = answers[grant].outcome == "failed"
            assert failed <= (grant in spent), answers[grant]
            kinds["plain"] += 1
        elif decision["outcome"] == "reserved":
            kinds[check_session(grant, answers[grant], log)] += 1
    assert kinds.total() == len(granted)
    assert is_enough(kinds), kinds
