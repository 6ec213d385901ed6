"""Names with every separator that they may hold, at a server: addresses, metrics, alerts, usage."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from streams.client.http.service import HttpService
from streams.settings import Settings
from tests.patience import PATIENCE_S
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import request

NAMES: Final = ["a", *[f"a{each}" for each in "._-@:"], *[f"a{each}a" for each in "._-@:"]]
NAMES += ["a:@a", "a@:a", "a:a:a", "0@a.a:a_a-a", "ana@example.org"]


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """A server where each name is a dataset, and the next name is who asked of it."""
    file = tmp_path_factory.mktemp("named") / "accountant.db"
    with LocalServer(file, TestClock(), Settings(port=0, metrics_analysts=100)) as server:
        for name in NAMES:
            server.open(name)
        yield server


@pytest.fixture(scope="module")
def granted_requests(named: LocalServer) -> list[tuple[dict[str, Any], str]]:
    """The requests of each name on each, every one with the address of its decision."""
    found = []
    for dataset in NAMES:
        for analyst in NAMES:
            claim = {"type": "pure", "epsilon": "0.01"}
            body = request(named.clock, dataset=dataset, analyst=analyst, claim=claim)
            answer = named.post("/requests", body)
            assert answer.json()["outcome"] == "granted", answer.text
            found.append((body, answer.headers["Content-Location"]))
    return found


def test_the_url_of_a_decision_contains_its_names_and_returns_it(
    named: LocalServer, granted_requests: list[tuple[dict[str, Any], str]]
) -> None:
    assert len({address for _, address in granted_requests}) == len(NAMES) ** 2
    for body, address in granted_requests:
        parts = urlsplit(address)
        _, _, dataset, _, request_id = map(unquote, parts.path.split("/"))
        named_analysts = parse_qs(parts.query)["analyst"]
        assert (dataset, request_id, named_analysts) == (
            body["dataset"],
            body["request_id"],
            [body["analyst"]],
        )
    for body, address in granted_requests[:: len(NAMES) - 1]:
        assert named.http.get(address).json()["request"] == body


async def test_a_client_finds_requests_datasets_and_usage_by_name(
    named: LocalServer, granted_requests: list[tuple[dict[str, Any], str]]
) -> None:
    service = HttpService(named.url)
    try:
        for body, _ in granted_requests[:: len(NAMES) - 1]:
            found = await service.find(body["dataset"], body["analyst"], body["request_id"])
            assert found is not None
            assert body["request_id"].encode() in found
        for name in NAMES:
            view = await service.dataset(name)
            assert view is not None
            assert view.dataset == name
            assert [used.analyst for used in await service.usage(name)] == sorted(NAMES)
    finally:
        await service.close()


def test_metrics_have_separate_series_for_every_dataset_and_analyst(
    named: LocalServer, granted_requests: list[tuple[dict[str, Any], str]]
) -> None:
    assert granted_requests
    found: dict[str, list[tuple[str, ...]]] = {}
    for family in parse_text(named.http.get("/metrics").text):
        for sample in family.samples:
            labels = sample.labels
            found.setdefault(sample.name, []).append(
                (labels.get("dataset", ""), labels.get("analyst", ""))
            )
    assert set(found["privacy_filter_left"]) == {(name, "") for name in NAMES}
    # As many analysts as the setting allows, each pair once.
    assert len(set(found["privacy_analyst_spent"])) == len(found["privacy_analyst_spent"]) == 100


def test_each_alert_has_its_own_id(file: Path, clock: TestClock) -> None:
    ids: list[str] = []
    with LocalServer(file, clock) as server:
        for name in NAMES:
            server.open(name, alert_at=["0.5", "1"])
            server.ask(dataset=name, claim={"type": "pure", "epsilon": "1"})
        with server.http.stream("GET", "/events?crossed=true", timeout=PATIENCE_S) as response:
            for line in response.iter_lines():
                if line.startswith("data: "):
                    ids.append(json.loads(line[6:])["alert_id"])
                if len(ids) == 2 * len(NAMES):
                    break
    assert {tuple(each.split("/")) for each in ids} == {
        (name, "1", ratio) for name in NAMES for ratio in ("0.5", "1")
    }


def test_an_invalid_name_gets_a_suggestion_of_a_valid_one(server: LocalServer) -> None:
    answer = server.ask(dataset="schema/table")
    assert answer.status_code == 422
    result = answer.json()
    assert result["field"] == "dataset"
    assert result["message"].endswith(": use schema:table")
