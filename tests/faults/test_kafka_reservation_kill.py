"""A worker killed at each step of reservations: no charge is lost, and a retry is taken once."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Final

import pytest

from streams.testing import LocalBroker
from tests.faults import oracle
from tests.faults.ledger import Ledger, source_of
from tests.faults.reservation_steps import STEPS, Body, Records, check, now
from tests.faults.worker_process import WorkerProcess, running
from tests.nightly import rounds

pytestmark = pytest.mark.faults

KILLS: Final = rounds(1, 50)
MINUTE_MS: Final = 60_000


async def test_a_workers_kill_at_each_step_loses_and_doubles_nothing(
    broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    draw = random.Random(35)
    lives = {
        (name, number): Records(
            f"{name.replace(' ', '-')}-{number}",
            # On a slow machine the kills take minutes: only those that shall lapse, do.
            until="PT1M" if step.minutes else "PT10H",
        )
        for number in range(KILLS)
        for name, step in STEPS.items()
    }
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        with running([WorkerProcess(ledger, "w1", tmp_path)]) as (worker,):
            begun = now()
            openings = [each.opening(begun) for each in lives.values()]
            await ledger.send_all(openings, topic="admin")
            await ledger.settle()
            for kind in ("reserve", "begin"):
                earlier = [each for (name, _), each in lives.items() if kind in STEPS[name].before]
                await decided(ledger, kind, earlier)
            begun = now()
            for minutes in (0, 1, 2):
                # No reservation is shorter than a minute, and the time is the broker's.
                due = begun + minutes * MINUTE_MS
                await asyncio.sleep(max(0, due - now()) / 1000)
                names = [name for name, step in STEPS.items() if step.minutes == minutes]
                for number in range(KILLS):
                    killed = {name: lives[name, number] for name in names}
                    await kill_within(ledger, worker, killed, draw)
            verdict = await ledger.judged()
    for (name, _), records in lives.items():
        step = STEPS[name]
        own = [each for each in verdict.decisions if each.get("dataset") == records.dataset]
        last = next(each for each in reversed(own) if "totals" in each)
        assert last["totals"]["epsilon"] == step.total, last
        assert last.get("held", {}).get("count", 0) == (step.stage is not None), last
        assert [each["outcome"] for each in own].count(step.outcome) == 1


async def decided(ledger: Ledger, kind: str, lives: list[Records]) -> list[Body]:
    """Send the records of a kind, and return their decisions."""
    places = await ledger.send_all([each.of(kind, now()) for each in lives])
    await ledger.settle()
    (values,) = await asyncio.to_thread(
        oracle.read, ledger.bootstrap, ledger.topic("decisions"), 1, committed=True
    )
    found = {}
    for value in (record.value or b"" for record in values):
        source = source_of(value)
        if source is not None:
            found[source["topic"], source["partition"], source["offset"]] = value
    return [each.hear(found[place]) for each, place in zip(lives, places, strict=True)]


async def kill_within(
    ledger: Ledger, worker: WorkerProcess, lives: dict[str, Records], draw: random.Random
) -> None:
    """Send a record to each dataset, kill the worker meanwhile, and send all of them again."""
    bodies = [each.of(STEPS[name].kind, now()) for name, each in lives.items()]
    sending = asyncio.create_task(ledger.send_all(bodies))
    await asyncio.sleep(draw.uniform(0, 0.15))
    worker.kill()
    worker.start()
    await sending
    for kind in {STEPS[name].kind for name in lives}:
        own = {name: each for name, each in lives.items() if STEPS[name].kind == kind}
        said = await decided(ledger, kind, list(own.values()))
        for (name, records), each in zip(own.items(), said, strict=True):
            assert each["outcome"] == "repeated", each
            check(records, STEPS[name], each)
