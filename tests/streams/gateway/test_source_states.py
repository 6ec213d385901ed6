"""Questions on what a source lacks, and on a source that is not confirmed: nothing is appended."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from streams.client import Accountant, NoAnswers, RequestInvalid, SourceDiffers
from streams.clock import SystemClock
from streams.pages import PAGES
from streams.settings import Settings
from streams.sources.confirmed_facts import ConfirmedFacts, confirmed_path
from streams.sources.source_facts import read_facts
from streams.sources.source_settings import read_source_settings
from tests.every_case import check_each
from tests.streams.clock import TestClock
from tests.streams.gateway.asking import SCHEMA, asking, data_settings, opening_with_schema
from tests.streams.gateway.local_server import LocalServer
from tests.streams.pages.people import Person

PAGE = "/pages/datasets/survey"
POLICY = {"filter": "basic", "epsilon": "50"}
WIDER = SCHEMA | {
    "columns": [*SCHEMA["columns"], {"type": "number", "name": "Age", "lower": "0", "upper": "9"}]
}
"""A schema of whose columns the source lacks one."""
MEAN = {"ask": "mean", "column": "Age"}
SESSION = {
    "noise": {"epsilon": "1", "law": "laplace_reduction"},
    "stop": {"relative_error": "0.5", "confidence": "0.95"},
    "reserve": {"until": "PT1H"},
}


class World(LocalServer):
    """A server with pages whose `survey` reads a CSV file, and `wide` more than that has."""

    def __init__(self, directory: Path, clock: TestClock | None = None) -> None:
        self.directory = directory
        self.sources = directory / "sources.json"
        if not self.sources.exists():
            data_settings(directory, datasets=["survey", "wide", "other"])
        settings = Settings(port=0, data_sources=self.sources, curator_tick_seconds=0.1)
        super().__init__(directory / "l.db", clock or TestClock(), settings, pages=PAGES)

    def open_with(self, dataset: str, schema: object, **policy: str) -> httpx.Response:
        body = opening_with_schema(self.clock, dataset, **POLICY, **policy)
        return self.post("/datasets?new=true", body | {"schema": schema})

    def header(self, names: str) -> None:
        """Replace the names of the file's columns."""
        path = self.directory / "people.csv"
        _, _, rows = path.read_text().partition("\n")
        path.with_name("new").write_text(f"{names}\n{rows}")
        path.with_name("new").replace(path)

    def confirm(self) -> None:
        facts = read_facts(read_source_settings(self.sources)["people"])
        ConfirmedFacts(confirmed_path(self.sources)).confirm("people", facts)

    @property
    def confirmed(self) -> dict[str, Any]:
        path = confirmed_path(self.sources)
        return json.loads(path.read_bytes()) if path.exists() else {}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("states")) as made:
        for name, schema in ("survey", SCHEMA), ("wide", WIDER):
            assert made.open_with(name, schema, population="p").json().get("outcome") == "opened"
        yield made


@pytest.fixture
def server(world: World) -> World:
    """Return the module's server, whose source is confirmed as the schema of `survey` has it."""
    world.header("age,region")
    world.confirm()
    return world


def direct(server: World, dataset: str, question: dict[str, Any]) -> httpx.Response:
    return server.post("/requests", asking(server.clock, dataset, question=question))


def routed(server: World, dataset: str, question: dict[str, Any]) -> httpx.Response:
    # A type that the fast path leaves to the router.
    body = asking(server.clock, dataset, question=question)
    headers = {"content-type": f"{JSON}; charset=utf-8"}
    return server.http.post("/requests", content=msgspec.json.encode(body), headers=headers)


def replayed(server: World, dataset: str, question: dict[str, Any]) -> httpx.Response:
    body = asking(server.clock, dataset, question=question)
    return server.post("/requests", body, prefer="replay=original")


def session(server: World, dataset: str, question: dict[str, Any]) -> httpx.Response:
    body = asking(server.clock, dataset, question={"ask": "count"}, **SESSION)
    if "column" in question:
        body["question"]["where"] = f"{question['column']} > 3"
    return server.post("/requests", body)


def batch(server: World, dataset: str, question: dict[str, Any]) -> httpx.Response:
    """Ask in a batch, behind a request without a question and a question of its own."""
    own = [asking(server.clock, dataset, question=question) for _ in range(2)]
    content = b"".join(msgspec.json.encode(each) + b"\n" for each in own)
    headers = {"content-type": "application/x-ndjson"}
    found = server.http.post("/requests/batch", content=content, headers=headers)
    first, second = map(msgspec.json.decode, found.content.splitlines())
    assert first.get("status") == second.get("status")
    return httpx.Response(second.get("status", 200), json=second)


JSON = "application/json"
ROUTES = [direct, routed, replayed, session, batch]
"""Each way to send a question to a server but the page, whose form has a token."""
Route = Callable[[World, str, dict[str, Any]], httpx.Response]


def test_no_route_appends_a_question_that_its_source_cannot_answer(server: World) -> None:
    def lacks(route: Route) -> None:
        before = server.last_sequence()
        lacking = route(server, "wide", MEAN)
        assert (lacking.status_code, lacking.json().get("error")) == (422, "not_in_source")
        assert (lacking.json()["field"], lacking.json()["value"]) == ("question", "Age")
        assert "the column Age is not there" in lacking.json()["message"]
        assert server.last_sequence() == before

    def is_closed(route: Route, dataset: str) -> None:
        before = server.last_sequence()
        closed = route(server, dataset, {"ask": "count"})
        assert (closed.status_code, closed.json().get("error")) == (403, "source_closed")
        assert "`accountant source confirm people` accepts it" in closed.json()["message"]
        assert "area" not in closed.text, "analysts learn no name or type of the source"
        assert server.last_sequence() == before

    def is_decided(route: Route) -> None:
        before = server.last_sequence()
        assert route(server, "survey", {"ask": "count"}).status_code == 200
        by = {"ask": "count", "by": ["region"]}
        assert route(server, "survey", by).status_code in {200, 422}
        assert server.last_sequence() > before

    check_each(lacks, ROUTES)
    server.header("age,area")
    check_each(is_closed, ROUTES, ("survey", "wide"))
    server.confirm()
    check_each(is_decided, ROUTES)


def test_the_page_asks_nothing_that_the_source_cannot_answer(server: World) -> None:
    fields = {"question": '{"ask":"count"}', "noise": '{"epsilon":"1"}', "asker": "ana"}
    with Person(server) as person:
        assert "The source of the data" not in person.look(PAGE).text
        server.header("age,area")
        page = person.look(PAGE).text
        assert "No question on this dataset is answered" in page
        assert "`area` is new" in page
        token = page.split('name="form_token" value="')[1].split('"')[0]
        before = server.last_sequence()
        form = fields | {"form_token": token, "request_id": asking(server.clock, "x")["request_id"]}
        refused = person.http.post(f"{PAGE}/questions", data=form)
        assert refused.status_code == 403
        assert "Nothing was asked: the source people answers no question now" in refused.text
        assert server.last_sequence() == before
        server.confirm()
        assert "column `region`: the source has no such" in person.look(PAGE).text


def test_a_repeat_of_a_decided_request_gets_what_became_of_it(server: World) -> None:
    body = asking(server.clock, "survey")
    assert server.post("/requests", body).json()["granted"]
    server.header("age,area")
    again = server.post("/requests", body)
    assert (again.status_code, again.json().get("outcome")) == (200, "repeated")
    assert server.post("/requests", asking(server.clock, "survey")).status_code == 403
    assert server.ask(dataset="survey").json()["granted"], "it asks nothing of the source"


def test_an_opening_is_asked_back_and_confirms_only_what_it_matches(tmp_path: Path) -> None:
    with World(tmp_path) as server:
        body = opening_with_schema(server.clock, "wide", **POLICY) | {"schema": WIDER}
        asked = server.post("/datasets", body)
        assert (asked.status_code, asked.json().get("error")) == (409, "source_differs")
        assert "column `Age`: the source has no such column" in asked.json()["message"]
        assert server.last_sequence() == 0, "the genesis alone is there"
        elsewhere = WIDER | {"source": {"kind": "csv", "name": "persons"}}
        asked = server.post("/datasets", body | {"schema": elsewhere})
        assert (asked.status_code, asked.json().get("error")) == (409, "source_differs")
        assert server.post("/datasets?new=true", body).json().get("outcome") == "opened"
        assert server.confirmed == {}
        closed = server.post("/requests", asking(server.clock, "wide"))
        assert closed.json().get("error") == "source_closed"
        server.confirm()
        assert server.post("/requests", asking(server.clock, "wide")).json()["granted"]


def test_an_opening_that_matches_confirms_and_a_refused_one_does_not(tmp_path: Path) -> None:
    with World(tmp_path) as server:
        refused = opening_with_schema(server.clock, "survey", filter="basic", epsilon="-1")
        assert server.post("/datasets?new=true", refused).status_code == 422
        assert server.confirmed == {}
        body = opening_with_schema(server.clock, "survey", **POLICY)
        assert server.post("/datasets", body).json().get("outcome") == "opened"
        assert server.confirmed["people"]["by"] == "check"


def test_a_restart_confirms_a_ledger_of_before_and_keeps_what_was_confirmed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with World(tmp_path) as server:
        assert server.open_with("survey", SCHEMA).json().get("outcome") == "opened"
    confirmed_path(tmp_path / "sources.json").unlink()
    with World(tmp_path, server.clock) as again:  # type: ignore[arg-type]
        confirmed = again.confirmed
        assert confirmed["people"]["by"] == "check"
        assert "source_confirmed" in caplog.text
        assert again.post("/requests", asking(again.clock, "survey")).json()["granted"]
        again.header("age,area")
    with World(tmp_path, server.clock) as changed:  # type: ignore[arg-type]
        closed = changed.post("/requests", asking(changed.clock, "survey"))
        assert closed.json().get("error") == "source_closed"
        assert changed.confirmed == confirmed
        assert changed.metric('privacy_source_closed{source="people"}') == "1.0"
        assert changed.metric('privacy_source_findings{source="people"}') == "1.0"
        notes = changed.http.get("/readyz").json()["notes"]
        assert any("questions on the source people are refused" in note for note in notes)
        assert not any("area" in note for note in notes), "no cause: others read it, too"


def test_clients_get_errors_that_name_the_rule(server: World) -> None:
    with Accountant(server.url, analyst="ana", clock=SystemClock()) as ledger:
        with pytest.raises(SourceDiffers, match="no such column") as asked:
            ledger.as_owner("owner").open("other", POLICY | {"population": "p"}, schema=WIDER)
        assert "new=True" in str(asked.value)
        with pytest.raises(RequestInvalid, match="the column Age is not there"):
            ledger.mean("wide", "Age", epsilon="1")
        server.header("age,area")
        with pytest.raises(NoAnswers, match="answers no question now"):
            ledger.count("survey", epsilon="1")
