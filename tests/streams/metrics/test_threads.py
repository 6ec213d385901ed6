"""One thread decides, others scrape: nothing is lost, nothing torn."""

from __future__ import annotations

import threading

import msgspec
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from accountant.partition.decide import decide
from accountant.partition.draft import Draft
from accountant.records.inputs import Input
from streams.metrics.live_ledgers import LiveLedgers
from streams.metrics.registry import exposition, make_registry
from streams.processing.observers import Committed
from tests.streams.clock import TestClock
from tests.streams.gateway.records import opening, request
from tests.streams.metrics.test_live_ledgers import partition

COMMITS = 300
NAMES = [f"d{number}" for number in range(20)]


def test_concurrent_scrapes_see_every_decision_once(clock: TestClock) -> None:
    made, state = LiveLedgers(clock, usage=True, analysts=5), partition(clock)
    registry = make_registry(made)
    made.replayed(state, 0.1)
    decided = 0
    done = threading.Event()
    samples: list[list[float]] = [[], []]
    faults: list[BaseException] = []

    def scrape(mine: list[float]) -> None:
        try:
            while not done.is_set():
                text, _ = exposition(registry, "application/openmetrics-text; version=1.0.0")
                samples = [
                    sample
                    for family in text_string_to_metric_families(text.decode())
                    for sample in family.samples
                ]
                mine.append(sum(s.value for s in samples if s.name == "privacy_requests_total"))
        except BaseException as error:
            faults.append(error)

    scrapers = [threading.Thread(target=scrape, args=(mine,)) for mine in samples]
    for thread in scrapers:
        thread.start()
    for number in range(COMMITS):
        draft, records = Draft(state), []
        bodies = [("admin", opening(clock, NAMES[number]))] if number < len(NAMES) else []
        for i in range(number % 7 + 1):
            name = "stranger" if (number + i) % 5 == 0 else NAMES[(number * i) % len(NAMES)]
            asked = request(clock, dataset=name, analyst=f"a{i}", claim=SMALL)
            bodies.append(("requests", asked))
        for source, body in bodies:
            value = msgspec.json.encode(body)
            record = Input(source, draft.next[source], None, value, clock.now() - i)
            records.append((record, decide(draft, record, clock.now())))
        draft.absorb()
        made.committed(Committed(state, records, 0.001))
        decided += len(records)
    done.set()
    for thread in scrapers:
        thread.join()
    assert faults == []
    for mine in samples:
        assert mine
        assert mine == sorted(mine)  # a counter never falls
    snapshot = made.snapshot()
    assert sum(snapshot.requests.values()) == decided
    assert sum(snapshot.partitions[0].decision_seconds.counts) == decided
    assert snapshot.partitions[0].commit_records.total == decided
    assert snapshot.partitions[0].sequence == decided


SMALL = {"type": "pure", "epsilon": "0.0001"}
