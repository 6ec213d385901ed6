"""Workers are killed and paused at any moment; every request is decided once."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from streams.testing import LocalBroker
from tests.faults import oracle
from tests.faults.ledger import Ledger, opening, request, until
from tests.faults.oracle.texts import at_text
from tests.faults.worker_process import WorkerProcess, running
from tests.nightly import rounds
from tests.streams.bodies import enrolment

pytestmark = pytest.mark.faults

REQUESTS = rounds(8_000, 20_000)
KILLS = rounds(4, 10)
EDGES = 400
PAUSES = rounds(2, 10)
MEMBERS = 200
EVERY = ["analyst", "engine"]
CIRCLES = [f"circle-{number}" for number in range(10)]
"""Datasets of which only members may ask."""
BASIC = {"epsilon": "0.05", "filter": "basic"}


def processes(
    ledger: Ledger, directory: Path, *names: str
) -> AbstractContextManager[Sequence[WorkerProcess]]:
    """Start workers; at the end kill the running ones."""
    return running([WorkerProcess(ledger, name, directory) for name in names])


async def open_half_basic(ledger: Ledger, count: int) -> list[str]:
    """Open datasets, half of them under a small budget that the requests will exhaust."""
    names = [f"ds-{number}" for number in range(count)]
    await ledger.send_all(
        (opening(name, **(BASIC if i % 2 else {})) for i, name in enumerate(names)), topic="admin"
    )
    return names


def enrolments(draw: random.Random, count: int) -> list[bytes]:
    """Return records on members of the circles: some come, some for seconds, some go."""
    made = []
    for _ in range(count):
        now, roles = time.time_ns() // 1_000_000, draw.choice([["analyst"], ["engine"], EVERY, []])
        ends = roles and draw.random() < 0.5
        more = {"until": at_text(now + draw.randrange(10_000))} if ends else {}
        analyst = f"analyst-{draw.randrange(20)}"
        made.append(
            enrolment(draw.choice(CIRCLES), now, draw.getrandbits(59), analyst, *roles, **more)
        )
    return made


def any_request(draw: random.Random, names: Sequence[str]) -> bytes:
    """Return a request, some through an engine that an owner may have named."""
    more = {"via": f"analyst-{draw.randrange(20)}"} if draw.random() < 0.02 else {}
    return request(draw.choice(names), analyst=f"analyst-{draw.randrange(20)}", **more)


async def test_each_request_is_decided_once_whatever_is_killed(
    broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    draw = random.Random(20_000)
    async with Ledger(broker.bootstrap, application) as ledger:
        names = await open_half_basic(ledger, 200)
        for_members = {"epsilon": "1", "delta": "1e-6", "access": "members"}
        await ledger.send_all((opening(name, **for_members) for name in CIRCLES), topic="admin")
        names += CIRCLES
        sent: list[bytes] = []
        with processes(ledger, tmp_path, "w1") as (worker,):
            await (
                ledger.settle()
            )  # otherwise requests may come before the openings of their datasets
            edges = ledger.edges(*names)
            for number in range(KILLS):
                bodies = [
                    # Some are sent again, across the kills: they must not be charged again.
                    draw.choice(sent) if sent and draw.random() < 0.05 else any_request(draw, names)
                    for _ in range(REQUESTS // KILLS)
                ]
                sent += bodies
                bodies += edges.take(EDGES // KILLS)
                draw.shuffle(bodies)
                before = await asyncio.to_thread(ledger.visible)
                coming = enrolments(draw, MEMBERS // KILLS)
                loading = asyncio.gather(
                    ledger.send_all(bodies), ledger.send_all(coming, topic="admin")
                )
                if number % 2:
                    await asyncio.sleep(draw.uniform(0, 4))  # while it starts or refolds, mostly
                else:
                    target = before + draw.randrange(1, len(bodies))
                    while await asyncio.to_thread(ledger.visible) < target:
                        assert worker.is_running
                worker.kill()
                since = worker.mark()
                worker.start()
                await loading
            await ledger.settle()
            # All may have been decided before it was killed: it hears of SIGTERM once it serves.
            await until(lambda: replayed(worker, since) == {0, 1, 2, 3}, "it serves again")
            assert worker.stop() == 0
        verdict = await ledger.judged()
        assert len(verdict.decisions) == REQUESTS + EDGES + MEMBERS + len(names)
        requested = {"granted", "refused", "repeated"}
        assert set(verdict.plain) == {"opened", "member_set", "member_removed", *requested}
        assert verdict.plain["repeated"] == REQUESTS - len(set(sent))
        refused = {"exhausted", "not_permitted", "unknown_member"}
        # Where the worker was killed for long, a membership may have ended before it is decided.
        assert set(verdict.reasons) - {"end_in_past"} == {*refused, "issued_in_future"}
        assert verdict.outcomes["expired"] > EDGES / 10


@contextlib.asynccontextmanager
async def load(ledger: Ledger, names: list[str], per_second: int) -> AsyncIterator[None]:
    """Keep asking until the block ends."""
    draw = random.Random(1)

    edges = ledger.edges(*names)

    async def ask() -> None:
        while True:
            bodies = [
                request(draw.choice(names), epsilon="0.0001") for _ in range(per_second // 20)
            ]
            await ledger.send_all(bodies + edges.take(1))
            await asyncio.sleep(0.05)

    asking = asyncio.create_task(ask())
    try:
        yield
    finally:
        asking.cancel()
        await asyncio.wait([asking])


def partitions_of(worker: WorkerProcess, since: int) -> list[int] | None:
    """Return a worker's last assignment; None without one since a mark in its log."""
    assigned = worker.events("partitions_assigned", since)
    return assigned[-1]["partitions"] if assigned else None


def replayed(worker: WorkerProcess, since: int) -> set[int]:
    return {entry["partition"] for entry in worker.events("partition_refolded", since)}


async def take_over(paused: WorkerProcess, other: WorkerProcess) -> None:
    """Pause a worker until the other one serves all, and have it join again."""
    since, since_paused = other.mark(), paused.mark()
    paused.pause()
    await until(lambda: replayed(other, since) == {0, 1, 2, 3}, "taken over")
    since = other.mark()
    paused.resume()
    await until(lambda: partitions_of(paused, since_paused), "joined again")
    await until(lambda: len(replayed(paused, since_paused)) >= 2, "the paused one serves")
    await until(lambda: len(replayed(other, since)) >= 2, "the other one serves")


async def test_a_paused_workers_commit_stays_invisible_and_owners_do_not_fence_each_other(
    broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    draw = random.Random(2)
    async with Ledger(broker.bootstrap, application) as ledger:
        names = await open_half_basic(ledger, 40)
        with processes(ledger, tmp_path, "w1", "w2") as workers:
            for each in workers:
                await until(lambda each=each: len(partitions_of(each, 0) or ()) == 2, "two each")
            async with load(ledger, names, 200):
                for number in range(PAUSES):
                    paused, other = workers[number % 2], workers[1 - number % 2]
                    await asyncio.sleep(draw.uniform(0.2, 0.6))
                    await take_over(paused, other)
            await ledger.settle()
            fencings = [
                entry
                for each in workers
                for entry in each.events("partition_dropped")
                if entry["error"] == "Fenced"
            ]
            assert all(each.is_running for each in workers)
            codes = [each.stop() for each in workers]
        assert codes == [0, 0]
        print(f"fencings: {len(fencings)}")
        # A paused worker's two partitions are fenced once each, at most; a duel has no bound.
        assert len(fencings) <= 2 * PAUSES
        await ledger.judged()


async def test_a_successor_waits_for_foreign_transactions_and_then_replays_everything(
    broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=2) as ledger:
        names = await open_half_basic(ledger, 20)
        with processes(ledger, tmp_path, "w1") as (worker,):
            await ledger.settle()
            foreign = await transaction_left_open(ledger, {"decisions": 0, "state": 1})
            visible = ledger.visible()
            await ledger.send_all(request(name, epsilon="0.01") for name in names)
            edges = ledger.edges(*names)
            await ledger.send_all(edges.take(20))
            # The owner's commits are now behind the foreign transaction, and invisible.
            await until(lambda: hidden(ledger) >= visible + len(names) + 20, "decided")
            worker.kill()
            worker.start()
            await ledger.send_all(request(name, epsilon="0.01") for name in names)
            await ledger.send_all(edges.take(20))
            refusals = lambda: worker.events("partition_dropped")  # noqa: E731
            await until(lambda: {entry["partition"] for entry in refusals()} == {0, 1}, "refusals")
            for entry in refusals():
                assert entry["error"] == "Unavailable"
                assert f"partition {entry['partition']}, is open" in entry["why"]
                assert "kafka-transactions.sh" in entry["why"]
            await foreign.abort_transaction()
            await foreign.stop()
            verdict = await ledger.judged()
            assert verdict.plain["granted"] == 2 * len(names)


async def transaction_left_open(ledger: Ledger, where: dict[str, int]) -> AIOKafkaProducer:
    """Start another client's transaction and write into it."""
    producer = AIOKafkaProducer(
        bootstrap_servers=ledger.bootstrap,
        transactional_id=f"{ledger.deployment.application}-foreign",
        transaction_timeout_ms=120_000,
    )
    await producer.start()
    await producer.begin_transaction()
    for name, partition in where.items():
        await producer.send_and_wait(ledger.topic(name), b"{}", key=b"x", partition=partition)
    return producer


def hidden(ledger: Ledger) -> int:
    """Return the number of decisions, visible or not."""
    found = oracle.read(ledger.bootstrap, ledger.topic("decisions"), 2, committed=False)
    return sum(len(records) for records in found) - 1  # the foreign one
