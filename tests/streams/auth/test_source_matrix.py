"""Who reaches a row of a source: through the datasets named for it, and through no other.

`people` is for `survey`, whose owner is olga; `spare` has no field `datasets`. Every caller opens
a dataset of their own on them, and asks on one that names them without being named.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from streams.errors import Unavailable
from tests.streams.auth.roles_server import ROLES, RolesServer
from tests.streams.gateway.asking import SCHEMA, asking, data_settings, opening_with_schema

CALLERS: Final = [name for name in ROLES.values() if name is not None]
SOURCES: Final = {
    "people": "another dataset's",
    "spare": "without datasets",
    "People": "spelt otherwise",
    "absent": "unknown",
}
Body = dict[str, Any]


def schema_of(source: str) -> Body:
    return SCHEMA | {"source": {"kind": "csv", "name": source}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RolesServer]:
    directory = tmp_path_factory.mktemp("sources")
    # A source that is not in the file may be added: its questions wait until their time is over.
    settings = data_settings(
        directory, datasets=["survey"], openers="*", limit_per_second=0, curator_turn_seconds=6
    )
    file = directory / "sources.json"
    sources = json.loads(file.read_bytes())
    sources["people"]["seconds"] = 1
    spare = {name: value for name, value in sources["people"].items() if name != "datasets"}
    file.write_text(json.dumps(sources | {"spare": spare}))
    with RolesServer(directory, settings=settings) as running:
        policy = {"filter": "zcdp_tight", "epsilon": "50", "delta": "1e-6", "access": "anyone"}
        body = opening_with_schema(running.clock, "survey", **policy)
        running.done("root", "/datasets", body | {"by": "root", "owners": ["olga"]}, "opened")
        for source in SOURCES:
            # Past the server, as whoever writes the topic or the file does.
            body = opening_with_schema(running.clock, f"on-{source}", **policy)
            body |= {"schema": schema_of(source), "by": "root", "owners": CALLERS}
            found = running.service.submit_sync("admin", msgspec.json.encode(body), 5)
            assert found.decision is not None
            assert json.loads(found.decision)["outcome"] == "opened", found.decision
        yield running


def opening_of(server: RolesServer, name: str, source: str, **policy: str) -> Body:
    policy = {"filter": "basic", "epsilon": "1000"} | policy
    body = opening_with_schema(server.clock, f"of-{name}", **policy)
    return body | {"schema": schema_of(source), "by": name}


@pytest.mark.parametrize("name", CALLERS)
@pytest.mark.parametrize("source", SOURCES)
def test_nobody_opens_a_dataset_on_a_source_that_is_not_its_own(
    server: RolesServer, name: str, source: str
) -> None:
    before = server.last_sequence()
    for address in ("/datasets", "/datasets?new=true"):
        answer = server.send(name, address, opening_of(server, name, source))
        assert answer.status_code == 403, answer.text
        problem = answer.json()
        assert (problem["error"], problem["field"]) == ("not_permitted", "schema.source.name")
        said = problem["message"].replace(source, "SOURCE").replace(name, "NAME")
        assert "the file of sources does not name of-NAME for it" in said
        assert "survey" not in said
    assert server.last_sequence() == before


@pytest.mark.parametrize("name", CALLERS)
@pytest.mark.parametrize("source", SOURCES)
def test_nobody_asks_on_a_source_that_is_not_their_datasets(
    server: RolesServer, name: str, source: str
) -> None:
    before, dataset = server.last_sequence(), f"on-{source}"
    question = asking(server.clock, dataset, name, epsilon="40")
    alone = server.send(name, "/requests", question)
    assert alone.status_code == 403, alone.text
    assert (alone.json()["field"], alone.json()["value"]) == ("dataset", dataset)
    headers = {"content-type": "application/x-ndjson"} | server.auth_headers(name)
    lines = [question, asking(server.clock, dataset, name)]
    content = b"\n".join(map(msgspec.json.encode, lines))
    batch = server.http.post("/requests/batch", content=content, headers=headers)
    assert [json.loads(line).get("status") for line in batch.text.splitlines()] == [403, 403]
    assert server.last_sequence() == before


def test_a_question_that_no_server_has_seen_is_charged_and_reads_nothing(
    server: RolesServer,
) -> None:
    for source in SOURCES:
        body = asking(server.clock, f"on-{source}", "ana")
        found = server.service.submit_sync("requests", msgspec.json.encode(body), 5)
        assert found.decision is not None
        assert json.loads(found.decision)["outcome"] == "granted"
        query: dict[str, Any] = {"dataset": f"on-{source}", "analyst": "ana"}
        headers = server.auth_headers("ana") | {"prefer": "wait=30"}
        path = f"/answers/{body['request_id']}"
        answer = server.http.get(path, params=query, headers=headers).json()
        assert answer["outcome"] == "failed"
        assert "values" not in answer
        # A repeat still gets what was decided, and lets no later line through.
        lines = [body, asking(server.clock, f"on-{source}", "ana")]
        content = b"\n".join(map(msgspec.json.encode, lines))
        headers = server.auth_headers("ana") | {"content-type": "application/x-ndjson"}
        batch = server.http.post("/requests/batch", content=content, headers=headers)
        repeat, new = map(json.loads, batch.text.splitlines())
        assert repeat["first"]["outcome"] == "granted"
        assert new.get("status") == 403
        again = server.post("/requests", body, **server.auth_headers("ana"))
        assert again.json()["outcome"] == "repeated"


def test_the_dataset_that_is_named_is_answered(server: RolesServer) -> None:
    body = asking(server.clock, "survey", "ana")
    server.done("ana", "/requests", body, "granted")
    query: dict[str, Any] = {"dataset": "survey", "analyst": "ana"}
    headers = server.auth_headers("ana") | {"prefer": "wait=30"}
    path = f"/answers/{body['request_id']}"
    assert server.http.get(path, params=query, headers=headers).json()["outcome"] == "answered"


def test_a_question_is_not_appended_while_its_sources_datasets_are_not_known(
    server: RolesServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(dataset: str) -> None:
        raise Unavailable(f"a row of {dataset} may be missing")

    before = server.last_sequence()
    monkeypatch.setattr(server.service, "check_is_known", check)
    answer = server.send("ana", "/requests", asking(server.clock, "survey", "ana"))
    assert answer.status_code == 503, answer.text
    assert server.last_sequence() == before


def test_datasets_named_for_one_source_share_a_population(tmp_path: Path) -> None:
    names = ["survey", "again", "other"]
    settings = data_settings(tmp_path, datasets=names, openers="*")
    with RolesServer(tmp_path, settings=settings) as running:

        def opened(name: str, population: str) -> tuple[int, str]:
            body = opening_with_schema(running.clock, name, epsilon="1", population=population)
            answer = running.send("zoe", "/datasets", body | {"by": "zoe", "owners": ["zoe"]})
            return answer.status_code, answer.json().get("outcome") or answer.json()["message"]

        assert opened("survey", "city") == (200, "opened")
        status, said = opened("other", "town")
        assert status == 403
        assert "their budgets add up only in one population" in said
        assert "survey" not in said  # it may be hidden from the caller
        assert opened("again", "city") == (200, "opened")
