"""Answers over HTTP: the stored bytes, pending ones, pages, and a server without answers."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import httpx
import jsonschema_rs
import pytest
from msgspec.structs import replace

from accountant.answers import decode_answer, encode_answer
from streams.gateway.contract.schemas import components
from streams.settings import Settings
from tests.patience import PATIENCE_S
from tests.streams.clock import TestClock
from tests.streams.gateway.asking import (
    PEOPLE,
    asking,
    data_settings,
    make_unreadable,
    opening_with_schema,
)
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import new_id, request

ANSWER = jsonschema_rs.validator_for(
    {"$ref": "#/components/schemas/NoisyAnswer", "components": {"schemas": components()}},
    validate_formats=True,
)
PAGE = jsonschema_rs.validator_for(
    {"$ref": "#/components/schemas/AnswerPage", "components": {"schemas": components()}},
    validate_formats=True,
)


@pytest.fixture
def answering(tmp_path: Path, file: Path, clock: TestClock) -> Iterator[LocalServer]:
    with answering_server(tmp_path, file, clock) as server:
        yield server


def answering_server(directory: Path, file: Path, clock: TestClock, **more: Any) -> LocalServer:
    """Return a server that answers questions about `survey`."""
    server = LocalServer(file, clock, Settings(port=0, **data_settings(directory, **more)))
    policy = {"filter": "zcdp_tight", "epsilon": "50", "delta": "1e-6"}
    response = server.post("/datasets", opening_with_schema(clock, "survey", **policy))
    if response.json().get("outcome") not in {"opened", "refused"}:
        server.close()  # else its threads keep this process alive
        raise AssertionError(response.text)
    return server


def granted(server: LocalServer, **more: Any) -> dict[str, Any]:
    decision = server.post("/requests", asking(server.clock, "survey", **more)).json()
    assert decision["granted"], decision
    return dict(decision)


def see(server: LocalServer, request_id: str, *, wait: int = 30, **query: str) -> httpx.Response:
    asked = {"dataset": "survey", "analyst": "ana"} | query
    path = f"/answers/{request_id}"
    return server.http.get(path, params=asked, headers={"prefer": f"wait={wait}"})


def id_of(decision: dict[str, Any]) -> str:
    return str(decision["request"]["request_id"])


QUESTIONS: list[dict[str, Any]] = [
    {"question": {"ask": "count", "by": ["region"]}},
    {"question": {"ask": "sum", "column": "age", "where": "age > 65"}, "noise": {"rho": "0.1"}},
    {"question": {"ask": "mean", "column": "age"}},
    {"question": {"ask": "variance", "column": "age"}, "noise": {"rho": "0.5"}},
    {"question": {"ask": "quantile", "column": "age", "fraction": "0.5"}},
    {"question": {"ask": "top", "column": "region", "most": 1}},
    {"question": {"ask": "count"}, "noise": {"error": "10", "confidence": "0.9"}},
]


@pytest.mark.parametrize("asked", QUESTIONS, ids=lambda asked: asked["question"]["ask"])
def test_an_answer_is_the_stored_bytes_and_as_the_document_says(
    answering: LocalServer, asked: dict[str, Any]
) -> None:
    decision = granted(answering, **asked)
    response = see(answering, id_of(decision))
    assert response.status_code == 200, response.text
    assert response.headers["cache-control"] == "no-store"
    ANSWER.validate(response.json())
    answer = decode_answer(response.content)
    assert (answer.grant, answer.outcome) == (decision["hash"], "answered")
    assert see(answering, id_of(decision)).content == response.content


def test_a_count_is_near_the_number_of_rows(answering: LocalServer) -> None:
    answer = decode_answer(see(answering, id_of(granted(answering, epsilon="2"))).content)
    assert abs(int(answer.values[0]) - PEOPLE) < 40  # 40 scales of the noise and more
    assert int(answer.low[0]) <= int(answer.values[0]) <= int(answer.high[0])


def test_an_answer_that_was_changed_in_its_store_is_not_shown(
    answering: LocalServer, file: Path
) -> None:
    request_id, other = id_of(granted(answering)), id_of(granted(answering))
    assert see(answering, other).status_code == 200
    answer = decode_answer(see(answering, request_id).content)
    forged = replace(answer, statistics=(replace(answer.statistics[0], scale="1/9"),))
    with contextlib.closing(apsw.Connection(f"{file}.answers")) as db:
        change = "UPDATE answers SET value = ? WHERE request_id = ?"
        db.execute(change, (encode_answer(forged), request_id))
    refused = see(answering, request_id)
    assert refused.status_code == 503
    assert "statistics[0].scale is not what was stored" in refused.json()["message"]
    listed = answering.http.get("/datasets/survey/answers").json()["answers"]
    assert [each["request_id"] for each in listed] == [other]
    state = answering.http.get("/readyz").json()
    assert state["ready"]
    assert any("1 stored answers are not shown" in each for each in state["notes"])
    # Nobody learns of an answer that is not theirs to see.
    assert see(answering, request_id, wait=0, analyst="zed").status_code == 404


def test_a_repeat_and_a_restart_give_the_same_bytes(
    tmp_path: Path, file: Path, clock: TestClock
) -> None:
    body = asking(clock, "survey")
    with answering_server(tmp_path, file, clock) as server:
        assert server.post("/requests", body).json()["granted"]
        first = see(server, body["request_id"]).content
        assert not server.post("/requests", body).json()["granted"]
        assert see(server, body["request_id"]).content == first
    with answering_server(tmp_path, file, clock) as server:
        assert see(server, body["request_id"]).content == first
    # Also long after the ledger has forgotten the id, and without the data.
    clock.pass_(seconds=10 * 86_400)
    with LocalServer(file, clock) as server:
        assert see(server, body["request_id"]).content == first


def test_a_granted_question_is_pending_until_its_tick(
    tmp_path: Path, file: Path, clock: TestClock
) -> None:
    with answering_server(tmp_path, file, clock, curator_tick_seconds=3600) as server:
        request_id = id_of(granted(server))
        response = see(server, request_id, wait=0)
        assert response.status_code == 202
        address = f"/answers/{request_id}?dataset=survey&analyst=ana"
        assert response.json() == {"status": "pending", "location": address}
        assert response.headers["location"] == address
        assert response.headers["retry-after"] == "1"
        assert server.http.get("/datasets/survey/answers").json() == {"answers": [], "next": 0}


def test_a_waiting_reader_gets_the_answer_as_it_is_stored(
    tmp_path: Path, file: Path, clock: TestClock
) -> None:
    with answering_server(tmp_path, file, clock, curator_tick_seconds=2) as server:
        request_id = id_of(granted(server))
        assert see(server, request_id, wait=0).status_code in {200, 202}
        found = list[httpx.Response]()
        readers = [
            threading.Thread(target=lambda: found.append(see(server, request_id))) for _ in range(3)
        ]
        for each in readers:
            each.start()
        for each in readers:
            each.join(PATIENCE_S)
        assert [each.status_code for each in found] == [200] * 3
        assert len({each.content for each in found}) == 1


@pytest.mark.parametrize(
    "query",
    [{}, {"analyst": "ben"}, {"dataset": "census"}],
    ids=["unknown id", "another analyst", "another dataset"],
)
def test_what_is_no_granted_question_is_not_found_at_once(
    answering: LocalServer, query: dict[str, str]
) -> None:
    answering.open()
    known = id_of(granted(answering))
    request_id = known if query else new_id(answering.clock)
    response = see(answering, request_id, **query)
    assert response.status_code == 404
    assert response.json()["error"] == "not_found"
    assert response.json()["field"] == "request_id"
    message = response.json()["message"]
    assert f"no answer to this request of {query.get('analyst', 'ana')}:" in message
    assert "found with ?analyst=NAME" in message


def test_claims_and_refused_questions_have_no_answer(answering: LocalServer) -> None:
    claim = request(answering.clock, dataset="survey")
    assert answering.post("/requests", claim).json()["granted"]
    wrong = asking(answering.clock, "survey", question={"ask": "sum", "column": "wages"})
    dear = asking(answering.clock, "survey", epsilon="1000")
    for body in (wrong, dear):
        assert not answering.post("/requests", body).json()["granted"]
    for body in (claim, wrong, dear):
        assert see(answering, body["request_id"]).json()["error"] == "not_found"


def test_a_question_whose_data_are_gone_has_a_failed_answer(
    tmp_path: Path, file: Path, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering_server(tmp_path, file, clock) as server:
        make_unreadable(tmp_path, monkeypatch)
        response = see(server, id_of(granted(server)))
    answer = decode_answer(response.content)
    assert (answer.outcome, answer.values) == ("failed", ())
    ANSWER.validate(response.json())


def test_a_page_continues_where_the_last_one_ended(answering: LocalServer) -> None:
    answering.open()
    ids = list[str]()
    for _ in range(5):
        ids.append(id_of(granted(answering)))
        assert see(answering, ids[-1]).status_code == 200  # so they are stored in this order
    found, after = list[str](), 0
    while True:
        path = "/datasets/survey/answers"
        response = answering.http.get(path, params={"after": after, "limit": 2})
        assert response.headers["content-location"] == f"{path}?after={after}&limit=2"
        PAGE.validate(response.json())
        found += [each["request_id"] for each in response.json()["answers"]]
        if response.json()["next"] == after:
            break
        after = response.json()["next"]
    assert found == ids
    assert answering.http.get("/datasets/census/answers").json() == {"answers": [], "next": 0}


@pytest.mark.parametrize("query", [{"after": "-1"}, {"limit": "0"}, {"limit": "1001"}])
def test_numbers_of_a_page_are_checked(answering: LocalServer, query: dict[str, str]) -> None:
    response = answering.http.get("/datasets/survey/answers", params=query)
    assert response.status_code == 422
    assert response.json()["field"] == next(iter(query))


def test_a_dataset_that_was_never_opened_is_unknown(answering: LocalServer) -> None:
    for response in (
        answering.http.get("/datasets/surveys/answers"),
        see(answering, new_id(answering.clock), dataset="surveys"),
    ):
        assert (response.status_code, response.json()["error"]) == (404, "unknown_dataset")


def test_without_authentication_an_answer_needs_its_analyst(answering: LocalServer) -> None:
    response = answering.http.get(f"/answers/{new_id(answering.clock)}?dataset=survey")
    assert (response.status_code, response.json()["field"]) == (422, "analyst")
    response = answering.http.get(f"/answers/{new_id(answering.clock)}")
    assert (response.status_code, response.json()["error"]) == (400, "invalid_query")


def test_a_server_without_data_says_so(server: LocalServer) -> None:
    body = opening_with_schema(server.clock, "survey")
    assert server.post("/datasets", body).json()["outcome"] == "opened"
    request_id = id_of(granted(server, epsilon="0.1"))
    for response in (see(server, request_id), server.http.get("/datasets/survey/answers")):
        assert (response.status_code, response.json()["error"]) == (404, "no_answers")
        assert "ACCOUNTANT_DATA_SOURCES" in response.json()["message"]


def events(server: LocalServer, count: int, **headers: str) -> list[tuple[str, bytes]]:
    """Return the ids and data of the next events of `survey`."""
    found = list[tuple[str, bytes]]()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with server.http.stream("GET", "/datasets/survey/answers/events", headers=named) as stream:
        assert stream.status_code == 200
        place = ""
        for line in stream.iter_lines():
            name, _, value = line.partition(": ")
            if name == "id":
                place = value
            if name == "data":
                found.append((place, value.encode()))
            if len(found) == count:
                break
    return found


def test_events_have_the_answers_there_are_and_then_new_ones(answering: LocalServer) -> None:
    first = id_of(granted(answering))
    stored = see(answering, first).content
    found = list[tuple[str, bytes]]()
    reader = threading.Thread(target=lambda: found.extend(events(answering, 2)))
    reader.start()
    second = id_of(granted(answering))
    reader.join(PATIENCE_S)
    assert [data for _, data in found] == [stored, see(answering, second).content]
    (again,) = events(answering, 1, last_event_id=found[0][0])
    assert again == found[1]


def test_events_of_a_wrong_place_are_refused(answering: LocalServer) -> None:
    path = "/datasets/survey/answers/events"
    for headers, field in (({"last-event-id": "x"}, "Last-Event-ID"), ({}, "after")):
        response = answering.http.get(path, params={"after": "-1"}, headers=headers)
        assert (response.status_code, response.json()["field"]) == (422, field)
    unknown = answering.http.get("/datasets/surveys/answers/events")
    assert (unknown.status_code, unknown.json()["error"]) == (404, "unknown_dataset")


def test_a_server_stops_although_a_client_follows_its_answers(
    tmp_path: Path, file: Path, clock: TestClock
) -> None:
    server = answering_server(tmp_path, file, clock)
    with httpx.stream(
        "GET", f"{server.url}/datasets/survey/answers/events", timeout=PATIENCE_S
    ) as stream:
        lines = stream.iter_lines()
        assert next(lines) == ": answers after 0"
        server.close()
        assert [line for line in lines if line.startswith("data")] == []
