"""A ledger on Kafka comes back from an export, byte for byte, or not at all."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from accountant.partition.key_hash import partition_of
from accountant.replay.audit import AuditReport
from streams.audit.log_audit import run_audit
from streams.errors import Refused
from streams.kafka.log import topics
from streams.kafka.log.kafka_log import KafkaLog
from streams.kafka.operate.restore import Copy, restore
from streams.log.exported_log import ExportedLog
from streams.testing import LocalBroker
from tests.faults import oracle
from tests.faults.ledger import Ledger, request, until, working
from tests.faults.operator import Operator
from tests.forks import commands
from tests.streams.cli.conftest import environment

OPENS = ("docs/reference/commands.md",)
STARTS = ("streams.cli",)

COMMANDS = Path(__file__).parents[2] / "docs/reference/commands.md"
PARTITIONS = 3
# Partition 0 never has a dataset: where its log is lost, `topics create` starts it again.
DATASETS = [
    next(name for i in range(99) if partition_of((name := f"ds-{i}").encode(), PARTITIONS) == part)
    for part in (1, 2)
]


class LostLedger:
    """A ledger, an export of it, and the former records of its topic."""

    def __init__(self, ledger: Ledger, file: Path, first: bytes) -> None:
        self.ledger, self.file, self.first = ledger, file, first
        self.operator = Operator(ledger)
        self.records = self.read("decisions")
        self.state = self.read("state")
        self.counts = [len(part) for part in self.records]

    def read(self, topic: str) -> list[list[tuple[bytes | None, bytes | None, int]]]:
        found = oracle.read(self.ledger.bootstrap, self.ledger.topic(topic), PARTITIONS)
        return [[(r.key, r.value, r.timestamp) for r in part] for part in found]

    def run(self, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        deployment = self.ledger.deployment
        settings = {
            "ACCOUNTANT_URL": f"kafka://{deployment.bootstrap}",
            "ACCOUNTANT_APPLICATION": deployment.application,
            "ACCOUNTANT_TOPIC_PREFIX": deployment.topics.prefix,
            "ACCOUNTANT_PARTITIONS": str(PARTITIONS),
            **more,
        }
        return commands.run(*command, env=environment(**settings), text=True)

    async def restoring(self, file: Path | None = None, **more: str) -> tuple[int, str]:
        where = str(file or self.file)
        done = await asyncio.to_thread(self.run, "log", "restore", where, "--json", **more)
        return done.returncode, done.stdout + done.stderr

    async def restored(self) -> list[tuple[int, int, str]]:
        """Return for each partition the numbers of existing and written decisions, and the head."""
        code, said = await self.restoring()
        assert code == 0, said
        done = json.loads(said)
        return [(each["found"], each["written"], each["head"]) for each in done["partitions"]]

    async def refused(self, why: str, due: int = 4, file: Path | None = None, **more: str) -> None:
        code, said = await self.restoring(file, **more)
        assert (code, why in said) == (due, True), said

    async def heads(self) -> list[tuple[bool, int, str]]:
        return [(r.ok, r.sequence, r.head) for r in await reports(KafkaLog(self.ledger.deployment))]


async def reports(log: KafkaLog | ExportedLog) -> list[AuditReport]:
    # A thread of its own: the auditor runs an event loop.
    return [report for _, report in await asyncio.to_thread(run_audit, log)]


async def with_history(ledger: Ledger, file: Path, count: int) -> LostLedger:
    """Have requests decided and exported."""
    first = request(DATASETS[0], epsilon="0.0001")
    async with working(ledger):
        await ledger.open(*DATASETS)
        await ledger.settle()
        bodies = [request(DATASETS[i % 2], epsilon="0.0001") for i in range(count - 1)]
        await ledger.send_all([first, *bodies])
        await ledger.settle()
    lost = LostLedger(ledger, file, first)
    done = await asyncio.to_thread(lost.run, "log", "export")
    assert done.returncode == 0, done.stderr
    await asyncio.to_thread(file.write_text, done.stdout)
    return lost


async def test_a_lost_log_comes_back_from_its_export(
    broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=PARTITIONS) as ledger:
        lost = await with_history(ledger, tmp_path / "log.jsonl", 60)
        heads = await lost.heads()
        await asyncio.to_thread(lost.operator.delete, "decisions")
        with pytest.raises(Refused, match=r"is empty, but .*state is not"):
            await topics.create(ledger.deployment)
        recreated, *others = lost.read("decisions")
        assert (len(recreated), others) == (1, [[], []])
        done = await lost.restored()
        assert [each[:2] for each in done] == [(1, 0), *((0, n) for n in lost.counts[1:])]
        assert lost.read("decisions") == [recreated, *lost.records[1:]]
        assert lost.read("state") == lost.state
        assert (await lost.heads())[1:] == heads[1:]
        assert [each[:2] for each in await lost.restored()] == [(n, 0) for n in lost.counts]
        assert await topics.create(ledger.deployment) == []
        async with working(ledger, settle=False):
            assert (await ledger.decided(lost.first))["outcome"] == "repeated"
            assert (await ledger.decided(request(DATASETS[1])))["outcome"] == "granted"
        later = lost.read("decisions")
        await lost.refused("has decisions after")
        assert lost.read("decisions") == later

        # Without `state` an older copy works, too: the missing inputs are decided again.
        await asyncio.to_thread(lost.operator.delete, "decisions", "state")
        assert [head for *_, head in await lost.restored()] == [head for *_, head in heads]
        assert lost.read("decisions") == lost.records
        await topics.create(ledger.deployment)
        async with working(ledger, settle=False):
            await until(lambda: lost.read("decisions")[1:] == later[1:], "all is decided again")


async def test_an_interrupted_restore_continues(
    broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=PARTITIONS) as ledger:
        lost = await with_history(ledger, tmp_path / "log.jsonl", 1_100)
        log, deployment = ExportedLog(lost.file), ledger.deployment
        found = enumerate(await reports(log))
        copies = [Copy(deployment.genesis(n), report.records, report.head) for n, report in found]

        def interrupt(number: int, done: int) -> None:
            if (number, done) == (1, 500):
                raise KeyError("interrupted")

        def parts() -> Iterator[tuple[int, Iterator[bytes]]]:
            return ((part.number, part.values) for part in log.parts())

        await asyncio.to_thread(lost.operator.delete, "decisions")
        with pytest.raises(KeyError, match="interrupted"):
            await restore(deployment, copies, parts, progress=interrupt)
        assert lost.read("decisions") == [lost.records[0], lost.records[1][:500], []]
        _, one, two = lost.counts
        done = await lost.restored()
        assert [each[:2] for each in done] == [(1, 0), (500, one - 500), (0, two)]
        assert lost.read("decisions") == lost.records


async def test_a_copy_of_another_ledger_is_refused_and_nothing_written(
    broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=PARTITIONS) as ledger:
        lost = await with_history(ledger, tmp_path / "log.jsonl", 20)
        lines = lost.file.read_bytes().splitlines(keepends=True)
        bad, twice, part = (tmp_path / f"{name}.jsonl" for name in ("bad", "twice", "part"))
        bad.write_bytes(b"".join([*lines[:-3], *lines[-2:]]))
        twice.write_bytes(b"".join(lines * 2))
        part.write_bytes(b"".join(lines[: sum(lost.counts[:2])]))
        cases: list[tuple[Path, dict[str, str], int, str]] = [
            (bad, {}, 1, f"partition 2, decision {lost.counts[2] - 3}, field partition_sequence"),
            (twice, {}, 4, "partition 0 twice"),
            (part, {}, 4, "lacks partitions [2] of 3"),
            (
                lost.file,
                {"ACCOUNTANT_APPLICATION": "other"},
                4,
                f"set ACCOUNTANT_APPLICATION={application}",
            ),
            (lost.file, {"ACCOUNTANT_URL": "sqlite:///ledger.db"}, 2, "copy a backup back"),
        ]
        await asyncio.to_thread(lost.operator.delete, *topics.SETTINGS)
        for file, settings, due, why in cases:
            await lost.refused(why, due, file, **settings)
            with pytest.raises(Refused, match=r"missing topics: .*decisions"):
                await topics.check(ledger.deployment)

        await topics.create(ledger.deployment)
        recreated = lost.read("decisions")
        async with working(ledger):
            await lost.refused("another decision 0")
            assert lost.read("decisions") == recreated
            # As the message says; but another process would use half of it as the whole log.
            await asyncio.to_thread(lost.operator.delete, "decisions")
            await lost.refused("run (1): stop them")
            assert lost.read("decisions") == [[], [], []]
        await lost.restored()
        assert lost.read("decisions") == lost.records


async def test_a_restored_decision_has_its_bytes_and_time_and_its_dataset_as_key(
    broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=PARTITIONS) as ledger:
        home, other = DATASETS
        async with working(ledger):
            await ledger.open(*DATASETS)
            plain = request(home)
            sent = [
                (home, plain),
                ("a key of its own", request(home)),
                ("undecodable", b"{"),
                ("an invalid field", plain.replace(b'"version": 1', b'"version": 2')),
                ("misrouted", request(other)),
            ]
            for key, body in sent:
                await ledger.send(body, key=key.encode(), partition=1)
            await ledger.settle()
        lost = LostLedger(ledger, tmp_path / "log.jsonl", plain)
        done = await asyncio.to_thread(lost.run, "log", "export")
        await asyncio.to_thread(lost.file.write_text, done.stdout)
        assert [key for key, *_ in lost.records[1]][-5:] == [key.encode() for key, _ in sent]
        await asyncio.to_thread(lost.operator.delete, "decisions")
        await lost.restored()
        restored = lost.read("decisions")
        assert [key for key, *_ in restored[1]][-5:] == [
            home.encode(),
            home.encode(),
            None,
            None,
            other.encode(),
        ]
        assert [[r[1:] for r in part] for part in restored] == [
            [r[1:] for r in part] for part in lost.records
        ]
        # The page does not promise the original keys, which the log does not contain.
        (section,) = re.findall(
            r"^## accountant log restore\n(.*?)^## ", COMMANDS.read_text(), re.MULTILINE | re.DOTALL
        )
        assert "with the keys" not in section
        assert "under the dataset as key, and without a key if they name no dataset" in section
