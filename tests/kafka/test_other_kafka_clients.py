"""The pages "Produce from another client" and "Read the decisions": their programs work."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from accountant.partition.key_hash import home_of, partition_of
from accountant.records.placement import record_key
from streams.testing import LocalBroker
from tests.faults.ledger import Ledger, new_id, request, working
from tests.kafka.secured_ledger import PARTITIONS as SECURED_PARTITIONS
from tests.kafka.secured_ledger import SecuredLedger

OPENS = ("docs/how-to/*",)
STARTS = ()

HOW_TO: Final = Path(__file__).parents[2] / "docs/how-to"
PAGE: Final = (HOW_TO / "other-kafka-clients.md").read_text()
READING: Final = (HOW_TO / "read-decisions.md").read_text()
PARTITIONS: Final = 12
REQUESTS: Final = 10_000
TABLE: Final = dict(re.findall(r"^\| `([a-z0-9-]+)` \| (\d+) \|$", PAGE, re.MULTILINE))
GROUPS: Final = re.findall(
    r"^\| `([a-z0-9:-]+)` \| `([a-z0-9-]+)` \| (\d+) \|$", PAGE, re.MULTILINE
)


class Programs:
    """The printed programs in a directory, which they run in.

    Args:
        connection: what `kafka.json` has.
    """

    def __init__(self, directory: Path, prefix: str, connection: dict[str, Any]) -> None:
        self._directory = directory
        self._environment = {**os.environ, "ACCOUNTANT_TOPIC_PREFIX": prefix}
        for page in (PAGE, READING):
            for name, text in re.findall(r'```python title="(\w+\.py)"\n(.*?)```', page, re.DOTALL):
                (directory / name).write_text(text)
        (directory / "kafka.json").write_text(json.dumps(connection))

    async def run(self, name: str) -> tuple[int | None, str]:
        """Run one to its end; return its exit code and its last words."""
        program = await asyncio.create_subprocess_exec(
            sys.executable,
            name,
            cwd=self._directory,
            env=self._environment,
            stderr=asyncio.subprocess.PIPE,
        )
        _, said = await program.communicate()
        return program.returncode, said.decode()

    async def succeed(self, *names: str) -> None:
        """Run programs that must succeed, one after another."""
        for name in names:
            assert await self.run(name) == (0, "")

    async def begin(self) -> None:
        """Make the requests, and store where the topic of decisions ends."""
        await self.succeed("prepare.py")
        code, said = await self.run("read.py")
        assert (code, said.split(".")[0]) == (1, "Stored where the topic ends")

    def lines(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self._directory / name).read_text().splitlines()]

    def send_keys_of_groups(self) -> None:
        """Have `send.py` send the key that the page prints for placement by group."""
        (line,) = re.findall(r"In `send\.py` below, the line is `(.*)`\.", PAGE)
        program = self._directory / "send.py"
        text, count = re.subn(r"key, value = .*", line, program.read_text())
        assert count == 1
        program.write_text(text)

    def replace_requests(self, bodies: list[bytes]) -> None:
        """Have the programs send these in place of the prepared ones."""
        (self._directory / "requests.ndjson").write_bytes(b"\n".join(bodies) + b"\n")


@pytest.fixture
def programs(broker: LocalBroker, application: str, tmp_path: Path) -> Programs:
    return Programs(tmp_path, f"{application}.", {"bootstrap.servers": broker.bootstrap})


def test_the_table_of_partitions_follows_the_rule() -> None:
    assert len(TABLE) == 3
    for key, partition in TABLE.items():
        assert partition_of(key.encode(), PARTITIONS) == int(partition)


def test_the_table_of_groups_follows_the_rule() -> None:
    assert len(GROUPS) == 3
    for name, key, partition in GROUPS:
        assert record_key(name, "group") == key
        assert home_of(name, "group", PARTITIONS) == int(partition)


async def test_the_printed_line_sends_the_key_of_a_group(
    broker: LocalBroker, application: str, programs: Programs
) -> None:
    names = [name for name, *_ in GROUPS]
    assert any(partition_of(name.encode(), PARTITIONS) != int(home) for name, _, home in GROUPS)
    ledger = Ledger(broker.bootstrap, application, partitions=PARTITIONS, placement="group")
    async with ledger, working(ledger):
        await ledger.open(*names)
        await programs.begin()
        programs.send_keys_of_groups()
        programs.replace_requests([request(name) for name in names])
        await programs.succeed("send.py", "read.py")
    assert [each["outcome"] for each in programs.lines("decided.ndjson")] == ["granted"] * 3


async def test_the_printed_programs_send_10_000_requests_and_read_each_decision(
    broker: LocalBroker, application: str, programs: Programs
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=PARTITIONS) as ledger:
        async with working(ledger):
            await ledger.open(*TABLE)
            await ledger.settle()
            await programs.begin()
            await programs.succeed("send.py", "read.py")
            sent, decided = programs.lines("requests.ndjson"), programs.lines("decided.ndjson")
            assert len({each["request_id"] for each in sent}) == REQUESTS
            assert len(decided) == len(programs.lines("delivered.ndjson")) == REQUESTS
            granted = {each["request_id"] for each in decided if each["granted"]}
            assert granted == {each["request_id"] for each in sent}
            await programs.succeed("read.py")  # nothing is waiting any more
            assert programs.lines("decided.ndjson") == decided
        verdict = await ledger.judged()
        assert verdict.outcomes == {"opened": len(TABLE), "granted": REQUESTS}


async def test_the_printed_reader_grants_no_conflict_and_finds_each_outcome(
    broker: LocalBroker, application: str, programs: Programs
) -> None:
    repeated, conflict, late = new_id(), new_id(), new_id()
    first = request("census", request_id=repeated)
    other = request("census", request_id=conflict, epsilon="0.002")
    too_long = json.loads(request("visits", request_id=late)) | {"purpose": "x" * 70_000}
    refused = request("census", epsilon="2")
    expected = [
        (repeated, True, "granted", None),
        (conflict, False, "conflict", None),
        (late, False, "invalid", "oversize"),
        (json.loads(refused)["request_id"], False, "refused", "exhausted"),
    ]
    async with (
        Ledger(broker.bootstrap, application, partitions=PARTITIONS) as ledger,
        working(ledger),
    ):
        await ledger.open(*TABLE)
        await ledger.send_all([first, request("census", request_id=conflict)])
        # Another analyst's request, under the same id.
        await ledger.send(request("census", request_id=late, analyst="ben"))
        await ledger.settle()
        await programs.begin()
        programs.replace_requests([first, other, json.dumps(too_long).encode(), refused])
        await ledger.send(b'{"dataset": [], "request_id": {}}', key=b"census")
        await ledger.send(b"no JSON", topic="admin", key=b"visits", partition=6)
        await programs.succeed("send.py", "read.py")
        found = programs.lines("decided.ndjson")
    assert sorted(tuple(each.values()) for each in found) == sorted(expected)


async def test_the_printed_programs_need_only_the_role_engine(
    secured: SecuredLedger, tmp_path: Path
) -> None:
    ours = secured.deployment("worker")
    programs = Programs(tmp_path, ours.topics.prefix, secured.foreign("engine"))
    await programs.begin()
    programs.replace_requests([request("census")])
    with secured.running("worker", tmp_path / "worker.log", "worker"):
        await programs.succeed("send.py", "read.py")
    (decided,) = programs.lines("decided.ndjson")
    assert (decided["outcome"], decided["reason"]) == ("refused", "unknown_dataset")
    positions = json.loads((tmp_path / "positions.json").read_text())
    assert len(positions) == SECURED_PARTITIONS


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
