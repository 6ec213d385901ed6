"""What watching costs: a scrape of ten thousand datasets, and the counting of each decision."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from accountant.decide import decide
from accountant.inputs import Input
from accountant.partition import Draft, Partition, genesis_decision
from accountant.records import Genesis, Source
from accountant.refold import Refold
from benchmarks import requests
from benchmarks.measure import Row, Scale, best_of
from streams.metrics.registry import exposition, make_registry
from streams.metrics.standing import Standing
from streams.processor import Committed

_DATASETS = 10_000
_DECISIONS = 100_000
_BATCH = 500
_WARM = 20  # batches that only warm the caches
_OPENMETRICS = "application/openmetrics-text; version=1.0.0"


class _Log:
    """One partition's decisions, made in batches as a processor makes them."""

    def __init__(self) -> None:
        self.now = requests.now()
        genesis = Genesis("accountant", 0, 1, 3_600_000, 300_000)
        refold = Refold(genesis)
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


def _count(log: _Log, standing: Standing, names: list[str], count: int) -> float:
    """Return the processor time that the observer took for each decision, in seconds."""
    drawn = requests.any_of(names, 1, count)
    bodies = (requests.request(name, log.now, i) for i, name in enumerate(drawn))
    spent = []
    for committed in log.batches("requests", bodies):
        started = time.process_time()
        standing.committed(committed)
        spent.append((time.process_time() - started) / len(committed.records))
    warm = spent[_WARM:] or spent
    return sum(warm) / len(warm)


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the cost of counting a decision, and of a scrape after all, some, no changes."""
    log, standing = _Log(), Standing()
    standing.refolded(log.partition, 0.1)
    names = requests.names(_DATASETS)
    for committed in log.batches("admin", [requests.opening(name, log.now) for name in names]):
        standing.committed(committed)
    registry = make_registry(standing)

    def scrape() -> int:
        return len(exposition(registry, _OPENMETRICS)[0])

    started = time.perf_counter()
    size = scrape()
    first = time.perf_counter() - started
    note = f"{_DATASETS:,} datasets, {size / 1e6:.1f} MB"
    yield Row(name="scrape, all new", value=first, unit="s", at_most=1.0, note=note)
    each = _count(log, standing, names[:1_000], scale.of(_DECISIONS))
    note = f"{scale.of(_DECISIONS):,} decisions, {_BATCH} a commit; processor time"
    yield Row(name="counting", value=each * 1e6, unit="us/decision", at_most=1.0, note=note)
    started = time.perf_counter()
    scrape()
    some = time.perf_counter() - started
    note = "1,000 of them changed"
    yield Row(name="scrape, some changed", value=some, unit="s", at_most=1.0, note=note)
    yield Row(name="scrape, none changed", value=best_of(3, scrape), unit="s", at_most=1.0)
