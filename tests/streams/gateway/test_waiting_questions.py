"""A name has a bounded number of questions that wait, and an owner lists and ends them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from accountant.records import encode
from accountant.records.inputs import check
from accountant.records.requests import MechanismRequest
from streams.answers.waiting import Waiting, WaitingQuestions
from streams.client.http.question_queue import QuestionQueueClient
from streams.curator.answering import OpenQuestion
from streams.curator.data_answering import DataAnswering
from streams.errors import Refused
from streams.gateway.waiting_check import WaitingLimit
from tests.streams.clock import TestClock
from tests.streams.gateway.asking import asking, opening_with_schema
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import new_id, request
from tests.streams.gateway.test_answers import answering_server, granted
from tests.streams.waiting import eventually

MOST = 3


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """A server whose answers come an hour later, so that every question waits.

    Each test has analysts of its own.
    """
    more = {"curator_tick_seconds": 3600, "questions_waiting": MOST}
    directory = tmp_path_factory.mktemp("waiting")
    with answering_server(directory, directory / "ledger.db", TestClock(), **more) as made:
        yield made


def test_more_questions_of_one_name_are_refused_before_the_charge(server: LocalServer) -> None:
    bodies = [asking(server.clock, "survey", epsilon="0.1") for _ in range(MOST + 1)]
    for body in bodies[:-1]:
        assert server.post("/requests", body).json()["granted"]
    last = server.last_sequence()
    refused = server.post("/requests", bodies[-1])
    assert refused.status_code == 429
    assert refused.json()["error"] == "too_many_questions"
    assert refused.headers["retry-after"] == "10"
    assert "nothing is charged" in refused.json()["message"]
    assert "ana" in refused.json()["message"]
    assert server.last_sequence() == last, "nothing was appended"
    # What was decided is answered, whoever waits; and so is what asks no question.
    assert server.post("/requests", bodies[0]).json()["outcome"] == "repeated"
    assert server.post("/requests", asking(server.clock, "survey", "bob")).json()["granted"]
    plain = request(server.clock, dataset="survey", analyst="ana")
    assert server.post("/requests", plain).json()["granted"]


def test_an_engine_and_its_analysts_count(server: LocalServer) -> None:
    engine = {"version": 1, "type": "member", "request_id": new_id(server.clock)}
    engine |= {"dataset": "survey", "by": "owner", "member": "eng", "roles": ["engine"]}
    assert server.post("/datasets/survey/members", engine).json()["outcome"] == "member_set"
    for analyst in ("mia", "ben", "eva"):
        granted_to(server, analyst, via="eng")
    refused = server.post("/requests", asking(server.clock, "survey", "zoe", via="eng"))
    assert refused.status_code == 429
    assert "eng" in refused.json()["message"]
    granted_to(server, "mia")
    granted_to(server, "mia")
    refused = server.post("/requests", asking(server.clock, "survey", "mia"))
    assert refused.status_code == 429


def granted_to(server: LocalServer, analyst: str, **more: Any) -> None:
    body = asking(server.clock, "survey", analyst, epsilon="0.1", **more)
    assert server.post("/requests", body).json()["granted"]


def test_each_line_of_a_batch_counts(server: LocalServer) -> None:
    lines = [asking(server.clock, "survey", "lea", epsilon="0.1") for _ in range(MOST + 2)]
    content = b"".join(msgspec.json.encode(each) + b"\n" for each in lines)
    headers = {"content-type": "application/x-ndjson"}
    answer = server.http.post("/requests/batch", content=content, headers=headers)
    found = [msgspec.json.decode(line) for line in answer.content.splitlines()]
    assert [each.get("granted") for each in found] == [True] * MOST + [None] * 2
    assert {each["error"] for each in found[MOST:]} == {"too_many_questions"}
    assert {each["retry_after"] for each in found[MOST:]} == {10}


def test_answered_questions_do_not_count(tmp_path: Path, file: Path, clock: TestClock) -> None:
    with answering_server(tmp_path, file, clock, questions_waiting=1) as server:
        waiting = 'privacy_questions_waiting{dataset="survey"}'
        answered = 'privacy_answers_total{outcome="answered"}'
        for count in ("1.0", "2.0", "3.0"):
            granted(server, epsilon="0.1")
            eventually(lambda count=count: server.metric(answered) == count)
            eventually(lambda: server.metric(waiting) == "0.0")


def test_what_was_sent_and_is_not_decided_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("streams.gateway.waiting_check.steady", lambda: now[0])
    waiting, sent = WaitingQuestions(), [asking_struct(f"r{i}") for i in range(3)]
    limit = WaitingLimit(waiting, 2)
    assert [limit.full(each) for each in sent] == [None, None, "ana"]
    assert limit.full(sent[0]) is None, "the same request again"
    now[0] += 10.5
    assert limit.full(sent[2]) is None, "nothing came of the others"
    # A grant counts as one that waits, and not twice.
    assert waiting.on_added is not None
    waiting.on_added(Waiting("survey", "ana", frozenset({"ana"}), "r2", 0))
    assert [limit.full(each) for each in sent] == [None, None, "ana"]


def asking_struct(request_id: str) -> MechanismRequest:
    body = check("requests", encode(asking(TestClock(), "survey"))).body
    assert isinstance(body, MechanismRequest)
    return msgspec.structs.replace(body, request_id=request_id)


@pytest.fixture
def blocked(
    tmp_path: Path, file: Path, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LocalServer]:
    """A server whose first question runs until the test ends; its others wait."""
    released, opened = threading.Event(), DataAnswering.open

    def wait(self: DataAnswering, *arguments: Any) -> OpenQuestion:
        released.wait(60)
        return opened(self, *arguments)

    monkeypatch.setattr(DataAnswering, "open", wait)
    with answering_server(tmp_path, file, clock, curator_parallel=1) as made:
        yield made
        released.set()


def test_an_owner_lists_and_ends_what_waits(blocked: LocalServer) -> None:
    for analyst in ("ana", "ana", "ana", "bob"):
        granted_to(blocked, analyst)
    client = QuestionQueueClient(blocked.url, None)
    eventually(lambda: [each.questions for each in client.waiting("survey")] == [3, 1])
    assert [each.analyst for each in client.waiting("survey")] == ["ana", "bob"]
    assert client.end("survey", "nobody") == 0
    assert client.end("survey", "ana") == 2, "the first one runs"
    eventually(lambda: blocked.metric("privacy_questions_ended_total") == "2.0")
    eventually(lambda: blocked.metric('privacy_answers_total{outcome="failed"}') == "2.0")
    assert client.end("survey", None) == 1
    with pytest.raises(Refused, match="dataset elsewhere was never opened"):
        client.end("elsewhere", None)
    # A page of another site can send a form, or text.
    answer = blocked.http.post("/datasets/survey/questions/end", content="a=1")
    assert answer.status_code == 415


def test_a_server_that_runs_no_questions_says_who_does(file: Path, clock: TestClock) -> None:
    with LocalServer(file, clock) as server:
        server.post("/datasets", opening_with_schema(clock, "survey"))
        listed = server.http.get("/datasets/survey/questions")
        for each in (listed, server.post("/datasets/survey/questions/end", {})):
            assert (each.status_code, each.json()["error"]) == (404, "no_curator")
            assert "send this to the curator" in each.json()["message"]
