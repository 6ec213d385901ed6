"""A log on Kafka frozen by a fast clock: each partition is reset once, and continues."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from pathlib import Path

import pytest

from accountant.partition.decide import decide
from accountant.partition.draft import Draft
from accountant.records.inputs import Input
from streams.audit.log_audit import run_audit
from streams.cli.stopped_ledger import write_records
from streams.clock import DAY_MS
from streams.errors import ClockOutOfRange, Refused
from streams.evidence.operator_records import reset_clock
from streams.kafka.log import topics
from streams.kafka.log.journal import KafkaJournal
from streams.kafka.log.kafka_log import KafkaLog
from streams.kafka.operate.lost_inputs import NoInputs
from streams.processing.journal import Commit
from streams.processing.recovery import recover_partition
from streams.settings import Settings
from streams.testing import LocalBroker
from tests.faults import oracle
from tests.faults.ledger import Ledger, new_id, request, working
from tests.faults.operator import Operator
from tests.forks import commands
from tests.kafka.test_repeats import ShiftedClock
from tests.streams.cli.conftest import environment

STARTS = ("streams.cli",)

AHEAD_MS = 10 * 365 * 86_400_000
SKEW_MS = 1_000
ANY_TIME = "message.timestamp.after.max.ms", str(2**63 - 1)
"""The broker's own clock is right in this test; by default it takes nothing an hour ahead."""


def now() -> int:
    return time.time_ns() // 1_000_000


async def decide_ahead(ledger: Ledger, partition: int, body: bytes) -> dict[oracle.Place, int]:
    """Have a request decided as by a broker and a worker whose clocks are ten years ahead.

    Returns: its place, and the time at which such a broker would have appended it.
    """
    (place,) = await ledger.send_all([body], partition=partition)
    deployment = ledger.deployment
    journal = KafkaJournal(
        deployment.cluster, deployment.application, deployment.topics, partition, NoInputs()
    )
    try:
        await journal.own()
        state = await recover_partition(journal, deployment.genesis(partition), asyncio.sleep)
        draft, at = Draft(state), now() + AHEAD_MS
        encoded = decide(draft, Input("requests", place[2], b"ds", body, at), at)
        await journal.commit(Commit([encoded], draft.rows(), [], draft.next, draft.decided_at))
    finally:
        await journal.drop()
    return {place: at}


def run(ledger: Ledger, *command: str) -> subprocess.CompletedProcess[str]:
    deployment = ledger.deployment
    env = environment(
        ACCOUNTANT_URL=f"kafka://{deployment.bootstrap}",
        ACCOUNTANT_APPLICATION=deployment.application,
        ACCOUNTANT_TOPIC_PREFIX=deployment.topics.prefix,
        ACCOUNTANT_PARTITIONS="2",
        ACCOUNTANT_SKEW_MS=str(SKEW_MS),
    )
    return commands.run(*command, env=env, text=True)


async def reset(ledger: Ledger, *more: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(run, ledger, "clock", "reset", "--reason", "battery", *more)


def reset_by_a_clock(ledger: Ledger, clock: ShiftedClock) -> None:
    """Reset as the command does, on a machine with this clock."""
    deployment = ledger.deployment
    settings = Settings(
        url=f"kafka://{deployment.bootstrap}",
        application=deployment.application,
        topic_prefix=deployment.topics.prefix,
        partitions=2,
        skew_ms=SKEW_MS,
    )
    write_records(
        settings,
        lambda log: reset_clock(
            log.journal, log.genesis, log.clock, "battery", compare=log.compare
        ),
        clock=clock,
    )


async def is_sound(ledger: Ledger) -> bool:
    reports = await asyncio.to_thread(run_audit, KafkaLog(ledger.deployment))
    return all(report.ok for _, report in reports)


async def test_a_partition_that_was_ahead_continues(
    broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=2, skew_ms=SKEW_MS) as ledger:
        async with working(ledger):
            ((_, number, _),) = await ledger.open("ds", filter="basic", epsilon="1")
            await ledger.settle()
        other = 1 - number
        operator = Operator(ledger)
        for name in ("decisions", "state"):
            await asyncio.to_thread(operator.alter, name, *ANY_TIME)
        early = request("ds", request_id=new_id(now() + AHEAD_MS))
        appended = await decide_ahead(ledger, number, early)
        async with working(ledger, ready=False):
            busy = await reset(ledger)
            assert (busy.returncode, "workers of the group" in busy.stderr) == (4, True), busy
        before = ledger.visible()
        with pytest.raises(ClockOutOfRange, match=r"10\.0 days ahead of the broker's"):
            await asyncio.to_thread(reset_by_a_clock, ledger, ShiftedClock(10 * DAY_MS))
        assert ledger.visible() == before
        done = await reset(ledger)
        assert done.returncode == 0, done.stderr
        assert f"partition {number}: decision 3" in done.stdout
        assert f"partition {other}: not ahead, nothing was written" in done.stdout
        again = await reset(ledger)
        assert again.returncode == 1, again.stdout
        assert await is_sound(ledger)

        await asyncio.sleep(SKEW_MS / 1000 + 0.5)  # until the expiry watermark is before the clock
        async with working(ledger, settle=False):
            fresh = request("ds")
            assert (await ledger.decided(fresh))["outcome"] == "granted"
            assert (await ledger.decided(early))["reason"] == "issued_in_future"
        prefix = ledger.deployment.topics.prefix
        found = await asyncio.to_thread(oracle.gathered, broker.bootstrap, prefix, 2)
        verdict = oracle.judge_evidence(found, appended=appended)
        assert verdict.outcomes["clock_reset"] == 1
        assert verdict.outcomes["granted"] == 2

        exported = await asyncio.to_thread(run, ledger, "log", "export")
        assert exported.returncode == 0, exported.stderr
        file = tmp_path / "log.jsonl"
        await asyncio.to_thread(file.write_text, exported.stdout)
        await asyncio.to_thread(operator.delete, "decisions")
        with pytest.raises(Refused, match=r"is empty, but .*state is not"):
            await topics.create(ledger.deployment)
        await asyncio.to_thread(operator.alter, "decisions", *ANY_TIME)
        restored = await asyncio.to_thread(run, ledger, "log", "restore", str(file), "--json")
        assert restored.returncode == 0, restored.stderr
        assert sum(part["written"] for part in json.loads(restored.stdout)["partitions"]) == 7
        assert await is_sound(ledger)
        async with working(ledger, settle=False):
            assert (await ledger.decided(fresh))["outcome"] == "repeated"
