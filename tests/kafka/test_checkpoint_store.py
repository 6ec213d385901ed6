"""Checkpoints that workers keep, and a log on Kafka that has lost decisions since."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from accountant.partition import hash_of
from accountant.partition.key_hash import partition_of
from streams.evidence.keys import SigningKey
from streams.evidence.signed_checkpoint import Checkpoint, open_signed
from streams.kafka.log import topics
from streams.settings import Settings
from streams.testing import LocalBroker
from streams.worker.partition_checkpoints import PartitionCheckpoints
from streams.worker.partitions import Worker
from tests.faults import oracle
from tests.faults.ledger import Ledger, request, until, working
from tests.faults.operator import Operator
from tests.faults.worker_process import settings_of
from tests.forks import commands
from tests.streams.cli.conftest import environment

STARTS = ("streams.cli",)

PARTITIONS = 2
DATASETS = [
    next(name for i in range(99) if partition_of((name := f"ds-{i}").encode(), PARTITIONS) == part)
    for part in range(PARTITIONS)
]


class LedgerWithCheckpoints:
    """A ledger whose workers keep checkpoints in a directory."""

    def __init__(self, ledger: Ledger, place: Path) -> None:
        self.ledger, self.place = ledger, place
        self.key: Path | None = None

    @asynccontextmanager
    async def worker(self, name: str = "w1", **options: bool) -> AsyncIterator[Worker]:
        settings = Settings(checkpoints=self.place, checkpoint_seconds=0.1, checkpoint_key=self.key)
        self.heads = PartitionCheckpoints(self.ledger.deployment, settings)
        async with working(
            self.ledger, instance_id=name, observers=[self.heads], **options
        ) as worker:
            yield worker

    def run(self, *command: str, unseen: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a command; `unseen`: without the directory of checkpoints."""
        where = {} if unseen else {"ACCOUNTANT_CHECKPOINTS": str(self.place)}
        env = environment(**settings_of(self.ledger), **where)
        return commands.run(*command, env=env, text=True)

    async def ran(self, *command: str, unseen: bool = False) -> subprocess.CompletedProcess[str]:
        return await asyncio.to_thread(self.run, *command, unseen=unseen)

    async def audited(self) -> subprocess.CompletedProcess[str]:
        key = SigningKey.load(self.place / "key").verifier.text
        return await self.ran("audit", "--checkpoints", str(self.place), "--key", key)

    def logs(self) -> list[list[bytes]]:
        topic = self.ledger.topic("decisions")
        found = oracle.read(self.ledger.bootstrap, topic, PARTITIONS)
        return [[r.value for r in part if r.value is not None] for part in found]

    def newest(self) -> dict[int, Checkpoint]:
        """Return the newest checkpoint of each partition."""
        key = self.place / "key"
        if not key.exists():
            return {}
        known = [SigningKey.load(key).verifier]
        notes = list[Checkpoint]()
        for path in self.place.rglob("*.note"):
            with suppress(FileNotFoundError):  # deleted meanwhile
                notes.append(open_signed(path.read_bytes(), known))
        ordered = sorted(notes, key=lambda each: (each.branch, each.sequence))
        return {each.partition: each for each in ordered}

    def are_kept(self) -> bool:
        """Return whether the checkpoints of all logs are stored."""
        ends = {n: (len(log) - 1, hash_of(log[-1])) for n, log in enumerate(self.logs())}
        return {n: (each.sequence, each.head) for n, each in self.newest().items()} == ends

    async def ask(self, count: int) -> None:
        bodies = [request(DATASETS[i % 2], epsilon="0.0001") for i in range(count)]
        await self.ledger.send_all(bodies)
        await self.ledger.settle()

    async def go_back(self, log: str) -> None:
        """Replace the log by an export."""
        file = self.place.with_name("back.jsonl")
        await asyncio.to_thread(file.write_text, log)
        await asyncio.to_thread(Operator(self.ledger).delete, "decisions", "state")
        done = await self.ran("log", "restore", str(file))
        assert done.returncode == 0, done.stderr
        await topics.create(self.ledger.deployment)


@pytest.fixture
async def run(
    broker: LocalBroker, application: str, tmp_path: Path
) -> AsyncIterator[LedgerWithCheckpoints]:
    async with Ledger(broker.bootstrap, application, partitions=PARTITIONS) as ledger:
        run = LedgerWithCheckpoints(ledger, tmp_path / "kept")
        async with run.worker():
            await ledger.open(*DATASETS)
            await ledger.settle()
            await run.ask(6)
            await until(run.are_kept, "checkpoints of both partitions")
        yield run


async def test_workers_store_checkpoints_of_each_partition(
    run: LedgerWithCheckpoints,
) -> None:
    done = await run.audited()
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("checkpoints agree") == PARTITIONS
    for name in ("w2", "w1", "w2"):  # owners in turn
        async with run.worker(name):
            await run.ask(4)
    async with run.worker("w1"), run.worker("w2"):
        await run.ask(4)
        await until(run.are_kept, "checkpoints of both partitions")
    assert run.heads.refused == []
    done = await run.audited()
    assert done.returncode == 0, done.stdout


async def test_a_partition_that_has_lost_decisions_is_halted_until_the_loss_is_accepted(
    run: LedgerWithCheckpoints,
) -> None:
    export = (await run.ran("log", "export")).stdout
    async with run.worker():
        await run.ask(8)
        await until(run.are_kept, "checkpoints of both partitions")
    newest = run.newest()
    await run.go_back(export)
    named = await run.audited()
    assert named.returncode == 1
    assert named.stdout.count("truncated: the log ends at decision 4, but") >= PARTITIONS

    async with run.worker(ready=False) as worker:
        await until(
            lambda: sum("halted" in why for why in worker.status.readiness().reasons) == 2,
            "both partitions halted",
        )
        why = worker.status.readiness().reasons[0]
        assert "ends at decision 4, but decision 8 was there at" in why
        assert not worker.status.serving
    key = str(run.place / "key")
    for command in (
        ("key", "rotate", key, "--old", key),
        ("topics", "accept-lost-inputs", "--topic", "requests", "--partition", "0", "--from", "0"),
    ):
        done = await run.ran(*command, "--reason", "a test")
        assert done.returncode == 4, (command, done.stderr)
        assert "ends at decision 4, but decision 8 was there at" in done.stderr
    assert run.newest() == newest
    assert [len(log) for log in run.logs()] == [5, 5]  # nothing was decided

    for number in range(PARTITIONS):
        lost = ("accept-rollback", "--lost", "5-8", "--reason", "a test")
        done = await run.ran(*lost, "--partition", str(number))
        assert done.returncode == 0, done.stderr
        again = await run.ran(*lost, "--partition", str(number))
        assert (again.returncode, "nothing was written" in again.stderr) == (1, True)
    async with run.worker():  # decides the inputs of the lost decisions again, then more
        await run.ask(2)
        await until(run.are_kept, "checkpoints of both partitions")
    assert {each.branch for each in run.newest().values()} == {1}
    shown = await run.ran("dataset", "show", DATASETS[0])
    for number in range(PARTITIONS):
        assert f"the log of partition {number} has lost decisions 1 time" in shown.stderr
    done = await run.audited()
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("decisions 5 to 8 were accepted as lost: a test") == PARTITIONS


async def test_a_forked_log_is_detected_after_the_start(
    run: LedgerWithCheckpoints, tmp_path: Path
) -> None:
    before = (await run.ran("log", "export")).stdout
    async with run.worker():
        await run.ask(8)
        await until(run.are_kept, "checkpoints of both partitions")
    await run.go_back(before)
    # Without this the inputs that are still there would be decided to the very same bytes.
    run.key = tmp_path / "next"
    SigningKey.create(run.key, "next")
    rotate = ("key", "rotate", str(run.key), "--old", str(run.place / "key"))
    done = await run.ran(*rotate, "--reason", "another decision", unseen=True)
    assert done.returncode == 0, done.stderr
    async with working(run.ledger):  # unseen
        await run.ask(8)
    newest = run.newest()
    async with run.worker(ready=False) as worker:
        await until(lambda: len(run.heads.refused) == 2, "both partitions known as other ones")
        assert "decision 8 of the log is another one than at" in run.heads.refused[0]
        ends = [len(log) for log in run.logs()]
        await run.ledger.send_all([request(name, epsilon="0.0001") for name in DATASETS])
        await until(
            lambda: sum("halted" in why for why in worker.status.readiness().reasons) == 2,
            "both partitions halted",
        )
        # The log has the batch that was decided meanwhile, and no other.
        assert [len(log) for log in run.logs()] == [end + 1 for end in ends]
    assert run.newest() == newest
    done = await run.audited()
    assert done.returncode == 1
    # Signed by the key before the one that is valid at that decision.
    assert done.stdout.count("key: decision 8 was signed at") >= PARTITIONS


async def test_a_key_is_rotated_in_every_partition(
    run: LedgerWithCheckpoints, tmp_path: Path
) -> None:
    first = SigningKey.load(run.place / "key").verifier.text
    SigningKey.create(tmp_path / "next", "next")
    rotate = ("key", "rotate", str(tmp_path / "next"), "--reason", "yearly")
    rotate = (*rotate, "--old", str(run.place / "key"))
    done = await run.ran(*rotate, "--json")
    assert done.returncode == 0, done.stderr
    outcomes = [json.loads(line)["outcome"] for line in done.stdout.splitlines()]
    assert outcomes == ["key_changed"] * PARTITIONS
    assert (await run.ran(*rotate)).returncode == 1
    done = await run.ran("head", "--key", str(tmp_path / "next"), "--to", str(run.place))
    assert done.returncode == 0, done.stderr
    sound = await run.ran("audit", "--checkpoints", str(run.place), "--key", first)
    assert sound.returncode == 0, sound.stdout
    async with run.worker(ready=False) as worker:  # with the old key: it signs nothing
        await until(lambda: bool(worker.status.serving), "served")
        await until(lambda: len(run.heads.notes) == PARTITIONS, "reported")
        assert all("ACCOUNTANT_CHECKPOINT_KEY" in note for note in run.heads.notes)
    sound = await run.ran("audit", "--checkpoints", str(run.place), "--key", first)
    assert sound.returncode == 0, sound.stdout
