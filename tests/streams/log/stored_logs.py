"""Logs with stated decisions in each place that a ledger's log may be in."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import apsw
import pytest
from confluent_kafka import Producer

from streams.embedded.ledger_file import create
from streams.embedded.sqlite_log import SqliteLog
from streams.kafka.log.kafka_log import KafkaLog
from streams.log.decision_log import DecisionLog
from streams.log.exported_log import ExportedLog
from tests.accountant.world import START, World
from tests.faults import oracle
from tests.faults.ledger import Ledger
from tests.faults.operator import Operator
from tests.patience import PATIENCE_S

COUNT = 24
"""Decisions of each partition at first."""


def decisions(partitions: int, partition: int, *, batch: int = COUNT, epsilon: str = "1") -> World:
    """Return a partition with one dataset and refused requests: `COUNT` decisions."""
    world = World(partitions=partitions, partition=partition, batch=batch)
    world.open(epsilon=epsilon, filter="basic")
    while len(world.log) < COUNT:
        world.now += 1_000
        world.ask("pure:2")
    return world


class StoredLog(ABC):
    """A log of `values`, by partition, that a test may change."""

    values: list[list[bytes]]
    log: DecisionLog

    async def append(self, partition: int, values: Sequence[bytes]) -> None:
        """Add decisions at the end."""
        await self.replace(partition, [*self.values[partition], *values])

    @abstractmethod
    async def replace(self, partition: int, values: Sequence[bytes]) -> None:
        """Put another log in the place of this one."""

    async def remove(self, partition: int, number: int) -> None:
        """Remove a decision, and not those after it."""
        values = self.values[partition]
        await self.replace(partition, [*values[:number], *values[number + 1 :]])


class InFile(StoredLog):
    def __init__(self, directory: Path) -> None:
        world = decisions(1, 0)
        self.values = [world.log[:1]]
        self.log = SqliteLog(directory / "ledger.db")
        self.path = directory / "ledger.db"
        create(self.path, world.genesis, START)
        self._write(0, world.log[1:], first=1)

    def _write(self, partition: int, values: Sequence[bytes], *, first: int) -> None:
        rows = [(number, START + number, value) for number, value in enumerate(values, first)]
        with contextlib.closing(apsw.Connection(str(self.path))) as db, db:
            db.execute("DELETE FROM decisions WHERE sequence >= ?", (first,))
            db.executemany("INSERT INTO decisions VALUES (?, ?, ?)", rows)
        self.values[partition] = [*self.values[partition][:first], *values]

    async def replace(self, partition: int, values: Sequence[bytes]) -> None:
        self._write(partition, values, first=0)

    async def remove(self, partition: int, number: int) -> None:
        with contextlib.closing(apsw.Connection(str(self.path))) as db:
            db.execute("DELETE FROM decisions WHERE sequence = ?", (number,))


class Exported(StoredLog):
    def __init__(self, directory: Path) -> None:
        self.values = [decisions(2, number).log for number in range(2)]
        self.path = directory / "log.jsonl"
        self.log = ExportedLog(self.path)
        self._write()

    def _write(self) -> None:
        self.path.write_bytes(b"".join(line + b"\n" for part in self.values for line in part))

    async def replace(self, partition: int, values: Sequence[bytes]) -> None:
        self.values[partition] = list(values)
        self._write()


class OnKafka(StoredLog):
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.log = KafkaLog(ledger.deployment)
        topic = oracle.read(ledger.bootstrap, ledger.topic("decisions"), 2)
        self.values = [[record.value or b"" for record in part] for part in topic]
        for number in range(2):
            self._write(number, decisions(2, number).log[1:])

    def _write(self, partition: int, values: Sequence[bytes]) -> None:
        producer = Producer({"bootstrap.servers": self._ledger.bootstrap, "linger.ms": 0})
        for value in values:
            producer.produce(self._ledger.topic("decisions"), value, partition=partition)
        assert producer.flush(PATIENCE_S) == 0
        self.values[partition] = [*self.values[partition], *values]

    async def append(self, partition: int, values: Sequence[bytes]) -> None:
        self._write(partition, values)

    async def replace(self, partition: int, values: Sequence[bytes]) -> None:
        operator, logs = Operator(self._ledger), [*self.values]
        operator.delete("decisions")
        operator.create_bare("decisions")
        logs[partition] = list(values)
        self.values = [[] for _ in logs]
        for number, log in enumerate(logs):
            self._write(number, log)


@contextlib.asynccontextmanager
async def stored_log(
    request: pytest.FixtureRequest, kind: str, directory: Path
) -> AsyncIterator[StoredLog]:
    """Yield a log in one of the places; see `PLACES`."""
    if kind != "kafka":
        made = InFile(directory) if kind == "file" else Exported(directory)
        yield made
        made.log.close()
        return
    bootstrap = request.getfixturevalue("broker").bootstrap
    name = request.getfixturevalue("application")
    async with Ledger(bootstrap, name, partitions=2) as ledger:
        on_kafka = OnKafka(ledger)
        try:
            yield on_kafka
        finally:
            await asyncio.to_thread(on_kafka.log.close)


PLACES = ["file", "exported", pytest.param("kafka", marks=pytest.mark.kafka)]
