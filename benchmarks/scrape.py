"""The cost of metrics: a scrape of ten thousand datasets, and its share of a worker's time."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Iterable, Iterator

from accountant.partition import Partition
from accountant.partition.decide import decide
from accountant.partition.draft import Draft, genesis_decision
from accountant.records import Genesis, Source
from accountant.records.inputs import Input
from accountant.replay.replay import Replay
from benchmarks import requests
from benchmarks.kafka_load import Counter, ask_all, deploy, open_all
from benchmarks.measure import Row, Scale, best_of
from streams.metrics.live_ledgers import LiveLedgers
from streams.metrics.registry import exposition, make_registry
from streams.processing.observers import Committed
from streams.testing import LocalBroker
from streams.worker.partitions import Worker

_DATASETS = 10_000
_DECISIONS = 100_000
_BATCH = 500
_WARM = 20  # batches that only warm the caches
_INTERVAL_S = 15.0  # between two scrapes, as in deploy/prometheus/prometheus.yml
_SCRAPE_EVERY_S = 3.0  # shorter in this benchmark, for several scrapes
_OPENMETRICS = "application/openmetrics-text; version=1.0.0"


class _Log:
    """One partition's decisions, in batches like a processor's."""

    def __init__(self) -> None:
        self.now = requests.now()
        genesis = Genesis("accountant", 0, 1, 3_600_000, 300_000)
        refold = Replay(genesis)
        refold.take_decision(genesis_decision(genesis, self.now).value)
        self.partition: Partition = refold.finish()

    def batches(self, source: Source, bodies: Iterable[bytes]) -> Iterator[Committed]:
        """Yield commits of up to 500 decisions."""
        waiting = list(bodies)
        for start in range(0, len(waiting), _BATCH):
            draft, decided = Draft(self.partition), []
            for body in waiting[start : start + _BATCH]:
                offset = draft.next[source]
                record = Input(source, offset, None, body, self.now - offset % 37)
                decided.append((record, decide(draft, record, self.now)))
            draft.absorb()
            yield Committed(self.partition, decided, 0.002)


def _count(log: _Log, live_ledgers: LiveLedgers, names: list[str], count: int) -> float:
    """Return the observer's CPU time for each decision, in seconds."""
    drawn = requests.any_of(names, 1, count)
    bodies = (requests.request(name, log.now, i) for i, name in enumerate(drawn))
    spent = []
    for committed in log.batches("requests", bodies):
        started = time.process_time()
        live_ledgers.committed(committed)
        spent.append((time.process_time() - started) / len(committed.records))
    warm = spent[_WARM:] or spent
    return sum(warm) / len(warm)


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the cost of counting a decision, and of a scrape after all, some or no changes."""
    log, live_ledgers = _Log(), LiveLedgers()
    live_ledgers.replayed(log.partition, 0.1)
    names = requests.names(_DATASETS)
    for committed in log.batches("admin", [requests.opening(name, log.now) for name in names]):
        live_ledgers.committed(committed)
    registry = make_registry(live_ledgers)

    def scrape() -> int:
        return len(exposition(registry, _OPENMETRICS)[0])

    started = time.perf_counter()
    size = scrape()
    first = time.perf_counter() - started
    note = f"{_DATASETS:,} datasets, {size / 1e6:.1f} MB"
    yield Row(name="scrape, all new", value=first, unit="s", at_most=1.0, note=note)
    each = _count(log, live_ledgers, names[:1_000], scale.of(_DECISIONS))
    note = f"{scale.of(_DECISIONS):,} decisions, {_BATCH} a commit; processor time"
    yield Row(name="counting", value=each * 1e6, unit="us/decision", at_most=1.0, note=note)
    gc.collect()
    started = time.perf_counter()
    scrape()
    some = time.perf_counter() - started
    note = "1,000 of them changed"
    yield Row(name="scrape, some changed", value=some, unit="s", at_most=1.0, note=note)
    yield Row(name="scrape, none changed", value=best_of(3, scrape), unit="s", at_most=1.0)
    yield asyncio.run(_watched(scale.of(200_000)))


class _TimedLedgers(LiveLedgers):
    """LiveLedgers, with its CPU time in the deciding thread."""

    spent = 0.0

    def committed(self, committed: Committed) -> None:
        started = time.thread_time()
        super().committed(committed)
        self.spent += time.thread_time() - started


class _Scraper(threading.Thread):
    """Scrapes next to a worker, and records its CPU time."""

    def __init__(self, live_ledgers: LiveLedgers) -> None:
        super().__init__()
        self._registry = make_registry(live_ledgers)
        self._enough = threading.Event()
        self.spent = 0.0
        self.scrapes = 0

    def run(self) -> None:
        exposition(self._registry, _OPENMETRICS)  # the first scrape is measured above
        ended = False
        while not ended:  # once at least, however short the run
            ended = self._enough.wait(_SCRAPE_EVERY_S)
            started = time.thread_time()
            exposition(self._registry, _OPENMETRICS)
            self.spent += time.thread_time() - started
            self.scrapes += 1

    def stop(self) -> None:
        self._enough.set()
        self.join()


async def _watched(count: int) -> Row:
    """Return the share of observer and scrapes in a worker's CPU time, in one run.

    This measures time, not throughput: throughput differs by 5 % between two equal runs. Every
    dataset changes between two scrapes, as in 15 seconds of full load.
    """
    names = requests.names(_DATASETS)
    with LocalBroker() as broker:
        deployment = await deploy(broker, "s.", 4)
        await open_all(deployment, names)
        live_ledgers, counter = _TimedLedgers(), Counter()
        worker = Worker(deployment, instance_id="bench", observers=[live_ledgers, counter])
        scraper = _Scraper(live_ledgers)
        await worker.start()
        try:
            await counter.reach(len(names))
            await worker.stop()
            await ask_all(deployment, names, count, 1)
            live_ledgers, counter = _TimedLedgers(), Counter()
            worker = Worker(deployment, instance_id="bench", observers=[live_ledgers, counter])
            await worker.start()
            await counter.reach(1)
            scraper = _Scraper(live_ledgers)
            scraper.start()
            busy, before, first = time.process_time(), live_ledgers.spent, counter.decisions
            await counter.reach(count)
            busy = time.process_time() - busy
            decided, counted = counter.decisions - first, live_ledgers.spent - before
        finally:
            await asyncio.to_thread(scraper.stop) if scraper.is_alive() else None
            await worker.stop()
    each, scrape = counted / decided, scraper.spent / scraper.scrapes
    note = f"{decided:,} decisions on {_DATASETS:,} datasets in {busy:.1f} s of processor time, "
    note += f"{each * 1e6:.2f} us each to count; {scraper.scrapes} scrapes of {scrape:.2f} s, "
    note += f"one in {_INTERVAL_S:g} s reckoned"
    share = counted / busy + scrape / _INTERVAL_S
    return Row(name="watching / a worker's time", value=share, unit="", at_most=0.03, note=note)
