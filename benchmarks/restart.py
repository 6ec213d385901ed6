"""A restart: read datasets and remembered ids from rows and decisions."""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from accountant.partition.decide import decide
from accountant.partition.draft import Draft, genesis_decision
from accountant.records import Genesis
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.inputs import Input
from accountant.replay.replay import Replay, state_rows
from benchmarks import requests
from benchmarks.kafka_load import Counter, deploy, producer
from benchmarks.measure import Row, Scale
from streams.embedded import ledger_file
from streams.embedded.journal import SqliteJournal
from streams.embedded.queue import InputQueue
from streams.embedded.service import EmbeddedService
from streams.kafka.deployment import Deployment
from streams.kafka.log.journal import KafkaJournal
from streams.kafka.wire.reader import consumer
from streams.processing.journal import Commit
from streams.processing.memory_journal import MemoryJournal, MemoryLog
from streams.processing.processor import Processor
from streams.settings import load
from streams.testing import LocalBroker
from streams.worker.partitions import Worker

_BATCH = 1_000
_OF_IDS = 250
_HOUR_MS = 3_600_000


_Rows = list[tuple[bytes, bytes]]


class _Log:
    """One partition with datasets that were opened long ago and have had even load since."""

    def __init__(self, datasets: int, genesis: Genesis, first: bytes | None = None) -> None:
        self.genesis = genesis
        self.now = requests.now()
        self.names = requests.names(datasets)
        begun = self.now - 3 * _HOUR_MS  # old enough for the openings' ids to be forgotten
        self.first = genesis_decision(genesis, begun)
        refold = Replay(genesis)
        refold.take_decision(self.first.value if first is None else first)
        self.partition = refold.finish()
        self._begun = begun if first is None else self.now

    def openings(self) -> Iterator[EncodedDecision]:
        """Decide the opening of every dataset."""
        bodies = (requests.opening(name, self._begun) for name in self.names)
        yield from self._decide("admin", bodies, self._begun)

    def asked(self, count: int) -> Iterator[EncodedDecision]:
        """Decide this number of requests."""
        names = self.names
        bodies = (requests.request(names[i % len(names)], self.now, i) for i in range(count))
        yield from self._decide("requests", bodies, self.now)

    def _decide(self, source: str, bodies: Iterator[bytes], at: int) -> Iterator[EncodedDecision]:
        draft = Draft(self.partition)
        for i, body in enumerate(bodies):
            record = Input(source, i, None, body, at)  # type: ignore[arg-type]
            encoded = decide(draft, record, at)
            yield encoded
            if i % _BATCH == _BATCH - 1:
                draft.absorb()
                draft = Draft(self.partition)
        draft.absorb()


def _allocated() -> int:
    """Return the bytes allocated since `tracemalloc` started."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _genesis() -> Genesis:
    return load().genesis(0, 1)


async def _in_memory(genesis: Genesis, decisions: list[EncodedDecision], rows: _Rows) -> float:
    """Return the time of a processor from owning a memory journal to serving."""
    log = MemoryLog()
    log.decisions += [decided.value for decided in decisions]
    log.state += rows
    counter = Counter()
    processor = Processor(MemoryJournal(log), genesis, counter)
    task = asyncio.create_task(processor.run())
    await counter.replayed_once.wait()
    task.cancel()
    await asyncio.wait([task])
    return counter.replayed_in[0]


async def _fill(path: Path, decisions: list[EncodedDecision], rows: _Rows) -> None:
    journal = SqliteJournal(path, inbox=InputQueue(1))
    await journal.own()
    await journal.commit(Commit(decisions, rows, [], {}, 0))
    await journal.drop()


def _in_file(genesis: Genesis, decisions: list[EncodedDecision], rows: _Rows) -> float:
    """Return the time of opening an embedded ledger."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "ledger.db"
        ledger_file.create(path, genesis, decisions[0].decided_at)
        asyncio.run(_fill(path, decisions[1:], rows))
        started = time.perf_counter()
        service = EmbeddedService.open(path, load())
        seconds = time.perf_counter() - started
        service.close_sync()
        return seconds


async def _on_broker(broker: LocalBroker, datasets: int) -> float:
    """Return the time of a worker's replay of one partition that remembers its openings' ids."""
    deployment = await deploy(broker, "r.", 1)
    await _fill_topics(deployment, datasets)
    counter = Counter()
    worker = Worker(deployment, instance_id="bench", observers=[counter])
    await worker.start()
    await counter.replayed_once.wait()
    await worker.stop()
    return counter.replayed_in[0]


async def _fill_topics(deployment: Deployment, datasets: int) -> None:
    async with consumer(deployment.cluster, committed=True) as inputs:
        names = deployment.topics
        journal = KafkaJournal(
            deployment.cluster, deployment.application, names, partition=0, inputs=inputs
        )
        await journal.own()
        (first,) = [value async for value in journal.decisions(None)]
        log = _Log(datasets, deployment.genesis(0), first)
        decided = log.openings()
        while page := list(islice(decided, _BATCH)):
            await journal.commit(Commit(page, [], [], {}, 0))
        # Decided without inputs: the number that the log has read.
        async with producer(deployment.bootstrap) as client:
            for _ in range(datasets):
                await client.send(names.admin, b".", partition=0)
            await client.flush()
        rows = state_rows(log.partition)
        for i in range(0, len(rows), _BATCH):
            await journal.commit(Commit([], rows[i : i + _BATCH], [], {}, 0))
        await journal.drop()


def _memory_of_ids(genesis: Genesis, ids: int) -> tuple[float, int]:
    """Return the bytes that an id takes, and their number; `tracemalloc` must have started.

    The datasets are few, so that their own grants count for nothing.
    """
    log = _Log(_OF_IDS, genesis)
    decisions = [log.first, *log.openings(), *log.asked(ids)]
    state = state_rows(log.partition)
    del log
    refold = Replay(genesis)
    for key, value in state:
        refold.take_row(key, value)
    before = _allocated()
    for decided in decisions[_OF_IDS + 1 :]:
        refold.take_decision(decided.value)
    known = len(refold.finish().ids)
    return (_allocated() - before) / known, known


def _many_ids(genesis: Genesis, datasets: int, ids: int) -> tuple[float, int]:
    """Return the seconds that a replay spends on the decisions of ids, and their number.

    Decide and replay in turns: a million decisions at once would take a gigabyte.
    """
    log = _Log(datasets, genesis)
    refold = Replay(genesis)
    refold.take_decision(log.first.value)
    for decided in log.openings():
        refold.take_decision(decided.value)
    asked = log.asked(ids)
    seconds = 0.0
    while page := [decided.value for decided in islice(asked, _BATCH)]:
        started = time.perf_counter()
        for value in page:
            refold.take_decision(value)
        seconds += time.perf_counter() - started
    return seconds, len(refold.finish().ids)


def rows(scale: Scale) -> Iterator[Row]:
    """Yield times of restarts, and the memory of a dataset and of an id."""
    datasets = ids = scale.of(100_000)
    genesis = _genesis()
    log = _Log(datasets, genesis)
    decisions = [log.first, *log.openings(), *log.asked(ids)]
    state = state_rows(log.partition)
    what = f"{datasets:,} datasets, {ids:,} ids"
    del log
    gc.collect()
    yield Row(
        name=f"restart, memory journal, {what}",
        value=asyncio.run(_in_memory(genesis, decisions, state)),
        unit="s",
        at_most=10,
    )
    yield Row(
        name=f"restart, SQLite file, {what}",
        value=_in_file(genesis, decisions, state),
        unit="s",
        at_most=10,
    )
    with LocalBroker() as broker:
        seconds = asyncio.run(_on_broker(broker, datasets))
    yield Row(name=f"restart, Kafka, {what}", value=seconds, unit="s", at_most=10)
    tracemalloc.start()
    before = _allocated()
    refold = Replay(genesis)
    for key, value in state:
        refold.take_row(key, value)
    with_rows = _allocated()
    yield Row(
        name="memory of a dataset",
        value=(with_rows - before) / datasets,
        unit="bytes",
        at_most=2_000,
        note="as tracemalloc counts",
    )
    del refold, decisions, state
    value, known = _memory_of_ids(genesis, scale.of(60_000))
    yield Row(
        name="memory of a remembered id",
        value=value,
        unit="bytes",
        at_most=250,
        note=f"{known:,} ids of {_OF_IDS} datasets",
    )
    tracemalloc.stop()
    gc.collect()
    seconds, known = _many_ids(genesis, scale.of(10_000), scale.of(1_000_000))
    yield Row(name=f"refold of {known:,} ids, without rows", value=seconds, unit="s")
