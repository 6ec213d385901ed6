"""The page "Produce from another client": its program and its table of partitions work."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from accountant.partition.key_hash import partition_of
from streams.testing import LocalBroker
from tests.faults.ledger import Ledger, new_id, request, working

PAGE: Final = (Path(__file__).parents[2] / "docs/how-to/other-kafka-clients.md").read_text()
PARTITIONS: Final = 12
PROGRAM: Final = PAGE.partition('```python title="send.py"\n')[2].partition("```")[0]
TABLE: Final = dict(re.findall(r"^\| `([a-z0-9-]+)` \| (\d+) \|$", PAGE, re.MULTILINE))


def test_the_table_of_partitions_follows_the_rule() -> None:
    assert len(TABLE) == 3
    for key, partition in TABLE.items():
        assert partition_of(key.encode(), PARTITIONS) == int(partition)


async def test_the_documented_librdkafka_program_gets_its_request_granted(
    broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=PARTITIONS) as ledger:
        async with working(ledger):
            await ledger.open(*TABLE)
            await ledger.settle()
            (tmp_path / "send.py").write_text(PROGRAM)
            program = await asyncio.create_subprocess_exec(
                sys.executable,
                "send.py",
                cwd=tmp_path,
                env={
                    **os.environ,
                    "BROKERS": broker.bootstrap,
                    "ACCOUNTANT_TOPIC_PREFIX": f"{application}.",
                },
                stdout=asyncio.subprocess.PIPE,
            )
            output, _ = await program.communicate()
            assert program.returncode == 0
            assert len(output.split()) == len(TABLE)
            await ledger.settle()
        verdict = await ledger.judged()
        assert verdict.outcomes == {"opened": len(TABLE), "granted": len(TABLE)}


async def test_records_of_librdkafkas_default_partitioner_can_be_sent_again(
    broker: LocalBroker, application: str
) -> None:
    bodies = {name: request(name, request_id=new_id()) for name in TABLE}
    async with Ledger(broker.bootstrap, application, partitions=PARTITIONS) as ledger:
        async with working(ledger):
            await ledger.open(*TABLE)
            for setting in ({}, {"partitioner": "murmur2_random"}):
                producer = Producer({"bootstrap.servers": broker.bootstrap, **setting})
                for name, body in bodies.items():
                    producer.produce(ledger.topic("requests"), key=name, value=body)
                producer.flush()
                await ledger.settle()
        verdict = await ledger.judged()
        assert verdict.reasons == {"wrong_partition": len(TABLE)}
        assert verdict.outcomes["granted"] == len(TABLE)
