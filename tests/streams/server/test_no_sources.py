"""A ledger in a file that is served without its data sources takes no question, and says so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from streams.client import Accountant, NoAnswers
from streams.clock import SystemClock
from streams.settings import Settings
from streams.sources.no_sources import NoSources
from tests.faults.server_process import ServerProcess
from tests.patience import PATIENCE_S
from tests.streams.clock import TestClock
from tests.streams.gateway.asking import SCHEMA, asking, data_settings, opening_with_schema
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import opening, request

JSON = {"content-type": "application/json"}
NDJSON = {"content-type": "application/x-ndjson"}
DO = "set ACCOUNTANT_DATA_SOURCES to the file that says where the data are"


def post(http: httpx.Client, path: str, body: object) -> Any:
    return http.post(path, content=json.dumps(body), headers=JSON).json()


def test_a_server_started_again_without_its_data_charges_no_question(tmp_path: Path) -> None:
    clock, log = SystemClock(), tmp_path / "log"
    sources = data_settings(tmp_path)["data_sources"]
    settings = {
        "ACCOUNTANT_URL": f"sqlite:///{tmp_path / 'ledger.db'}",
        "ACCOUNTANT_CHECKPOINTS": "off",
        "ACCOUNTANT_CURATOR_TICK_SECONDS": "0.1",
    }
    before, new = asking(clock, "survey"), asking(clock, "survey")
    answer = f"/answers/{before['request_id']}?dataset=survey&analyst=ana"
    with ServerProcess("serve", log, settings | {"ACCOUNTANT_DATA_SOURCES": str(sources)}) as first:
        first.start()
        with httpx.Client(base_url=first.address, timeout=PATIENCE_S) as http:
            post(http, "/datasets", opening_with_schema(clock, "survey"))
            assert post(http, "/requests", before)["granted"]
            value = http.get(answer, headers={"prefer": "wait=30"}).content
    with ServerProcess("serve", log, settings) as second:
        second.start()
        with httpx.Client(base_url=second.address, timeout=PATIENCE_S) as http:
            (note,) = http.get("/readyz").json().get("notes", [""])
            assert note.startswith("questions are refused before they are charged")
            assert DO in note
            head = http.get("/head").json()
            refused = post(http, "/requests", new)
            assert (refused["status"], refused["error"]) == (409, "no_answers")
            assert "nothing is charged" in refused["message"]
            assert DO in refused["message"]
            assert http.get("/head").json() == head, "nothing was appended"
            # What was decided before still has its decision, and its answer.
            assert post(http, "/requests", before)["outcome"] == "repeated"
            assert http.get(answer).content == value
    assert "questions_refused" in log.read_text()


@pytest.fixture
def server(
    file: Path, clock: TestClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LocalServer]:
    """A server that has answers, and no data any more."""
    monkeypatch.setenv("ACCOUNTANT_ANSWERS", str(tmp_path / "results.db"))
    settings = Settings(port=0, **data_settings(tmp_path))
    with LocalServer(file, clock, settings, sources=NoSources(is_asked=False)) as made:
        made.post("/datasets?new=true", opening_with_schema(clock, "survey"))
        made.post("/datasets?new=true", opening(clock, "census"))
        yield made


def test_no_way_to_ask_is_left(server: LocalServer) -> None:
    assert "notes" not in server.http.get("/readyz").json(), "nobody has asked yet"
    before, clock = server.last_sequence(), server.clock
    plain = asking(clock, "survey")
    reserved = asking(
        clock,
        "survey",
        noise={"epsilon": "1", "law": "laplace_reduction"},
        stop={"relative_error": "0.5", "confidence": "0.95"},
        reserve={"until": "PT1H"},
    )
    for body in (plain, reserved):
        assert server.post("/requests", body).json()["error"] == "no_answers"
    lines = b"\n".join(json.dumps(each).encode() for each in (plain, reserved))
    batch = server.http.post("/requests/batch", content=lines, headers=NDJSON).text
    assert [json.loads(line)["error"] for line in batch.splitlines()] == ["no_answers"] * 2
    with (
        Accountant(server.url, analyst="ana", clock=clock) as ledger,
        pytest.raises(NoAnswers, match="ACCOUNTANT_DATA_SOURCES"),
    ):
        ledger.count("survey", epsilon="1")
    assert server.last_sequence() == before
    (note,) = server.http.get("/readyz").json()["notes"]
    assert DO in note
    # What needs no data is decided.
    assert server.post("/requests", request(clock, dataset="census")).json()["granted"]
    assert server.http.get("/datasets/survey").json()["schema"] == SCHEMA
