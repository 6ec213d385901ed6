from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text

from streams.metrics.registry import exposition, make_registry
from streams.metrics.text_families import TextFamily, label, line
from streams.settings import Settings
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import new_id, request

OPENMETRICS = {"accept": "application/openmetrics-text; version=1.0.0"}


@pytest.fixture
def busy(file: Path, clock: TestClock) -> Iterator[LocalServer]:
    """A ledger whose every metric has a value."""
    with LocalServer(file, clock, Settings(port=0, metrics_analysts=10)) as server:
        server.open(horizon="P365D", delta="1e-6")
        server.open("adult", filter="zcdp_tight", delta="1e-6")
        server.ask()
        server.ask(dataset="adult")
        server.ask(claim={"type": "pure", "epsilon": "5"})
        server.ask(dataset="made-up")
        yield server


def series(families: list[Metric]) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return every sample but those that change from one scrape to the next."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
        if not sample.name.startswith("process_")
    }


def scraped(server: LocalServer, **headers: str) -> httpx.Response:
    return server.http.get("/metrics", headers=headers)


def test_both_formats_parse_and_say_the_same(busy: LocalServer) -> None:
    text = list(parse_text(scraped(busy).text))
    openmetrics = list(parse_openmetrics(scraped(busy, **OPENMETRICS).text))
    assert series(text) == series(openmetrics)
    assert len(series(text)) > 80
    ours = {family.name: family.type for family in openmetrics if family.name[:8] == "privacy_"}
    assert ours["privacy_requests"] == "counter"
    assert ours["privacy_dataset"] == "info"
    assert all(family.documentation for family in openmetrics)


def test_every_family_occurs_once(busy: LocalServer) -> None:
    for headers in {}, OPENMETRICS:
        lines = scraped(busy, **headers).text.splitlines()
        types = [line.split()[2] for line in lines if line.startswith("# TYPE")]
        assert sorted(set(types)) == sorted(types)


def test_a_bucket_leads_to_a_request(busy: LocalServer, clock: TestClock) -> None:
    asked = new_id(clock)
    clock.pass_(seconds=3)
    busy.ask(request_id=asked)
    found = {
        (sample.name, sample.exemplar.labels["request_id"])
        for family in parse_openmetrics(scraped(busy, **OPENMETRICS).text)
        for sample in family.samples
        if sample.exemplar
    }
    assert ("privacy_decision_duration_seconds_bucket", asked) in found
    assert ("privacy_commit_duration_seconds_bucket", asked) in found
    decision = busy.http.get(f"/datasets/census/requests/{asked}", params={"analyst": "ana"})
    assert decision.json()["request"]["request_id"] == asked
    assert "request_id" not in scraped(busy).text  # the older format has no exemplars


def test_a_record_that_is_not_a_request_gives_no_exemplar(
    busy: LocalServer, clock: TestClock
) -> None:
    busy.post("/requests", request(clock, request_id="no such id"))
    busy.post("/requests", b'{"type": "request", "request_id": 5}')
    text = scraped(busy, **OPENMETRICS).text
    assert "no such id" not in text
    list(parse_openmetrics(text))


def test_a_dataset_that_has_not_changed_keeps_its_lines(busy: LocalServer) -> None:
    registry = make_registry(busy.service.live_ledgers)
    first, _ = exposition(registry, "")
    busy.ask(dataset="adult")
    second, _ = exposition(registry, "")
    before, after = (
        series(list(parse_text(first.decode()))),
        series(list(parse_text(second.decode()))),
    )
    assert before.keys() == after.keys() | before.keys()
    changed = {
        dict(labels).get("dataset")
        for (name, labels), value in after.items()
        if before.get((name, labels)) != value and name.startswith("privacy_filter")
    }
    assert changed == {"adult"}


def test_rendered_samples_read_back_what_was_written() -> None:
    strange = 'a"b\\c\nd'
    family = TextFamily("x", "What.", "gauge", [line("x", label("name", strange), 0.1)])
    (sample,) = family.samples
    assert (sample.name, sample.labels, sample.value) == ("x", {"name": strange}, 0.1)
