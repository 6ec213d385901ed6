"""Topics of a version before the first release: every process refuses them and writes nothing."""

from __future__ import annotations

import asyncio
import subprocess

import pytest
from confluent_kafka import Producer

from accountant.errors import MadeByPrereleaseVersion
from streams.kafka.log import topics
from streams.testing import LocalBroker
from tests.before.fixtures import ARCHIVE, REFUSED
from tests.before.fixtures import topics as old_topics
from tests.faults import oracle
from tests.faults.ledger import Ledger, until, working
from tests.faults.operator import Operator
from tests.forks import commands
from tests.patience import PATIENCE_S
from tests.streams.cli.conftest import environment

OPENS = ("tests/before/*",)
STARTS = ("streams.cli",)

ALL = ("decisions", "state", "requests", "admin")


def read(ledger: Ledger) -> list[object]:
    return [oracle.read(ledger.bootstrap, ledger.topic(name), 1) for name in ALL]


def run(ledger: Ledger, *command: str) -> subprocess.CompletedProcess[str]:
    deployment = ledger.deployment
    env = environment(
        ACCOUNTANT_URL=f"kafka://{deployment.bootstrap}",
        ACCOUNTANT_APPLICATION=deployment.application,
        ACCOUNTANT_TOPIC_PREFIX=deployment.topics.prefix,
        ACCOUNTANT_PARTITIONS="1",
    )
    return commands.run(*command, env=env, text=True)


async def test_old_topics_are_refused_by_workers_and_commands_and_nothing_is_written(
    broker: LocalBroker, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        operator = Operator(ledger)
        await asyncio.to_thread(operator.delete, "decisions", "state")
        await asyncio.to_thread(operator.create_bare, "decisions", "state")
        decisions, rows = old_topics()
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for value in decisions:
            producer.produce(ledger.topic("decisions"), value, partition=0)
        for key, row in rows:
            producer.produce(ledger.topic("state"), row, key, partition=0)
        assert producer.flush(PATIENCE_S) == 0
        before = read(ledger)

        async with working(ledger, ready=False) as worker:
            await until(lambda: "halted" in str(worker.status.readiness()), "halted")
            (why,) = worker.status.readiness().reasons
            assert REFUSED in why
            assert "`accountant audit`" not in why
        with pytest.raises(MadeByPrereleaseVersion):
            await topics.create(ledger.deployment)
        for command in (("audit",), ("log", "export"), ("head",), ("log", "restore", str(ARCHIVE))):
            done = await asyncio.to_thread(run, ledger, *command)
            said = " ".join(done.stderr.split())
            assert (done.returncode, REFUSED in said, done.stdout) == (4, True, ""), (command, done)
        assert read(ledger) == before
