from __future__ import annotations

import gzip
import json
import threading
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from accountant.partition.decide import decide
from accountant.partition.draft import Draft
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.inputs import Input
from accountant.replay.audit import audit
from streams.embedded.ledger_file import read_decisions
from tests.patience import PATIENCE_S
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import amending, closing, new_id, opening, request
from tests.streams.waiting import eventually


def outcome(response: httpx.Response) -> tuple[int, str, str | None]:
    body = response.json()
    return response.status_code, body["outcome"], body.get("reason")


def test_the_response_to_a_grant_equals_the_decision_in_the_log(server: LocalServer) -> None:
    response = server.ask()
    assert outcome(response) == (200, "granted", None)
    where = response.headers["content-location"]
    assert server.http.get(where).content == response.content


def test_ten_tenths_are_granted_and_the_eleventh_shows_nothing_remaining(
    server: LocalServer,
) -> None:
    assert {server.ask().json()["outcome"] for _ in range(10)} == {"granted"}
    refused = server.ask()
    assert outcome(refused) == (200, "refused", "exhausted")
    assert refused.json()["left"]["epsilon"] == "0"
    assert refused.json()["asked"]["epsilon"] == "0.1"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"dataset": "nowhere"}, (200, "refused", "unknown_dataset")),
        ({"unit": "household"}, (200, "refused", "unit_mismatch")),
        (
            {"claim": {"type": "approximate", "epsilon": "0.1", "delta": "1e-9"}},
            (200, "refused", "claim_not_accepted"),
        ),
    ],
)
def test_a_refusal_gets_status_200_with_its_reason(
    server: LocalServer, change: dict[str, Any], expected: tuple[int, str, str]
) -> None:
    assert outcome(server.ask(**change)) == expected


def test_a_repeated_id_gets_its_first_decision_and_is_charged_once(
    file: Path, clock: TestClock
) -> None:
    with LocalServer(file, clock) as server:
        server.open()
        asked = request(clock)
        first = server.post("/requests", asked)
        assert outcome(first) == (200, "granted", None)
        again = server.post("/requests", asked)
        assert outcome(again) == (200, "repeated", None)
        assert again.json()["first"]["outcome"] == "granted"
        other = server.post("/requests", asked | {"purpose": "another"})
        assert outcome(other) == (409, "conflict", None)
        somebody_else = server.post("/requests", asked | {"analyst": "ben"})
        assert outcome(somebody_else) == (200, "granted", None)
        where = first.headers["content-location"]
        assert server.http.get(where).content == first.content
    with LocalServer(file, clock) as server:
        assert outcome(server.post("/requests", asked)) == (200, "repeated", None)
        assert outcome(server.post("/requests", asked | {"purpose": "x"})) == (
            409,
            "conflict",
            None,
        )
        assert server.http.get(where).content == first.content
        clock.pass_(seconds=2 * 3600)
        assert outcome(server.post("/requests", asked)) == (200, "expired", None)
        left = server.http.get("/datasets/census").json()["left"]["epsilon"]
        assert left == "0.8"


def test_an_id_issued_in_the_future_is_invalid_until_its_time(
    server: LocalServer, clock: TestClock
) -> None:
    asked = request(clock, request_id=new_id(clock, ahead_ms=400_000))
    response = server.post("/requests", asked)
    assert response.status_code == 422
    assert response.json()["error"] == "issued_in_future"
    assert response.json()["field"] == "request_id"
    assert response.json()["decision"]["outcome"] == "invalid"
    clock.pass_(seconds=400)
    assert outcome(server.post("/requests", asked)) == (200, "granted", None)
    assert outcome(server.post("/requests", asked)) == (200, "repeated", None)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b'{"version": 1, "version": 1}',
        b"\xff\xfe",
        b"[" * 60_000,
        b'{"a":' * 10_000,
    ],
)
def test_a_body_that_is_not_json_gets_400_and_is_not_appended(
    shared_server: LocalServer, body: bytes
) -> None:
    before = shared_server.last_sequence()
    response = shared_server.post("/requests", body)
    assert response.status_code == 400, response.text
    assert response.json()["error"] == "undecodable"
    assert shared_server.last_sequence() == before


@pytest.mark.parametrize("body", [b"[1]", b"1", b"null", b'"%s"' % (b"9" * 50_000)])
def test_a_json_body_that_is_no_object_gets_422(shared_server: LocalServer, body: bytes) -> None:
    response = shared_server.post("/requests", body)
    assert (response.status_code, response.json()["field"]) == (422, "body")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"claim": {"type": "pure", "epsilon": "1e-400"}}, "claim.epsilon"),
        ({"claim": {"type": "pure", "epsilon": "1e999"}}, "claim.epsilon"),
        ({"claim": {"type": "pure", "epsilon": "NaN"}}, "claim.epsilon"),
        ({"claim": {"type": "pure", "epsilon": "-0"}}, "claim.epsilon"),
        ({"claim": {"type": "pure", "epsilon": "0x1p3"}}, "claim.epsilon"),
        ({"claim": {"type": "pure", "epsilon": " 1"}}, "claim.epsilon"),
        ({"claim": {"type": "pure", "epsilon": "9" * 50_000}}, "claim.epsilon"),
        ({"claim": {"type": "pure", "epsilon": 1}}, "claim.epsilon"),
        ({"analyst": "a/b"}, "analyst"),
        ({"dataset": ""}, "dataset"),
        ({"request_id": "x"}, "request_id"),
        ({"extra": 1}, "extra"),
        ({"version": 2}, "version"),
    ],
)
def test_an_invalid_field_gets_422_with_rule_and_value_and_is_not_appended(
    shared_server: LocalServer, change: dict[str, Any], field: str
) -> None:
    before = shared_server.last_sequence()
    response = shared_server.post("/requests", request(shared_server.clock) | change)
    assert response.status_code == 422, response.text
    result = response.json()
    assert result["field"] == field
    assert result["rule"]
    assert result["value"] if field != "dataset" else "value" not in result
    assert len(response.content) < 2_000
    assert shared_server.last_sequence() == before


def test_each_route_accepts_only_its_own_type_of_record(
    server: LocalServer, clock: TestClock
) -> None:
    assert server.post("/datasets", request(clock)).status_code == 422
    assert server.post("/requests", opening(clock)).status_code == 422
    assert server.post("/datasets", closing(clock)).json()["field"] == "type"


def test_an_amendment_changes_thresholds_and_horizon_but_not_the_budget(
    server: LocalServer, clock: TestClock
) -> None:
    before = server.http.get("/datasets/census").json()
    amendment = amending(clock, alert_at=["0.25", "0.75"], horizon="P9D")
    wrong = server.post("/datasets/sales/amend", amendment)
    assert (wrong.status_code, wrong.json()["field"]) == (422, "dataset")
    assert server.post("/datasets/census/close", amendment).json()["field"] == "type"
    broken = server.post("/datasets/census/amend", amending(clock, alert_at=["0.9", "0.5"]))
    assert (broken.status_code, broken.json()["field"]) == (422, "alert_at[1]")
    assert outcome(server.post("/datasets/census/amend", amendment)) == (200, "amended", None)
    assert outcome(server.post("/datasets/census/amend", amendment)) == (200, "repeated", None)
    after = server.http.get("/datasets/census").json()
    assert after["policy"] == before["policy"] | {"alert_at": ["0.25", "0.75"], "horizon": "P9D"}
    assert (after["budget"], after["left"]) == (before["budget"], before["left"])
    server.ask()
    server.ask()
    assert server.ask().json()["crossed"] == ["0.25"]


def test_a_closed_dataset_refuses_requests(server: LocalServer, clock: TestClock) -> None:
    wrong = server.post("/datasets/sales/close", closing(clock))
    assert (wrong.status_code, wrong.json()["field"]) == (422, "dataset")
    closed = closing(clock)
    assert outcome(server.post("/datasets/census/close", closed)) == (200, "closed", None)
    assert outcome(server.post("/datasets/census/close", closed)) == (200, "repeated", None)
    assert outcome(server.ask()) == (200, "refused", "closed")
    assert outcome(server.post("/datasets", opening(clock))) == (200, "refused", "already_opened")


def test_a_body_above_64_kib_gets_413_before_it_is_read(
    server: LocalServer, clock: TestClock
) -> None:
    before = server.last_sequence()
    announced = server.post("/requests", request(clock, purpose="x" * 70_000))
    assert announced.status_code == 413
    assert announced.json()["error"] == "oversize"

    def endless() -> Any:
        for _ in range(100):
            yield b" " * 4096

    headers = {"content-type": "application/json"}
    streamed = server.http.post("/requests", content=endless(), headers=headers)
    assert streamed.status_code == 413
    assert server.last_sequence() == before


def test_a_compressed_body_gets_415_without_expansion(server: LocalServer) -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    assert len(bomb) < 65_536
    response = server.post("/requests", bomb, content_encoding="gzip")
    assert (response.status_code, response.json()["field"]) == (415, "content-encoding")
    undeclared = server.post("/requests", bomb)
    assert undeclared.status_code == 400


@pytest.mark.parametrize("declared", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_a_content_type_that_a_foreign_page_can_post_gets_415(
    shared_server: LocalServer, declared: str
) -> None:
    body = msgspec.json.encode(request(shared_server.clock))
    response = shared_server.http.post(
        "/requests", content=body, headers={"content-type": declared}
    )
    assert response.status_code == 415


def test_a_foreign_host_name_gets_421(server: LocalServer) -> None:
    response = server.http.get("/datasets", headers={"host": "evil.example:80"})
    assert response.status_code == 421
    assert server.http.get("/datasets", headers={"host": "localhost:1"}).status_code == 200


def test_without_waiting_the_response_is_202_with_the_location(
    server: LocalServer, clock: TestClock
) -> None:
    asked = request(clock)
    response = server.post("/requests", asked, prefer="wait=0")
    assert response.status_code == 202
    where = response.headers["location"]
    eventually(lambda: server.http.get(where).status_code == 200)
    assert server.http.get(where).json()["outcome"] == "granted"
    assert outcome(server.post("/requests", asked)) == (200, "repeated", None)


def test_a_slow_decision_gets_202_and_is_found_later(file: Path, clock: TestClock) -> None:
    go = threading.Event()

    def slow(draft: Draft, record: Input, now: int) -> EncodedDecision:
        if record.source == "requests":
            go.wait(PATIENCE_S)
        return decide(draft, record, now)

    with LocalServer(file, clock, decide=slow) as server:
        server.open()
        response = server.post("/requests", request(clock), prefer="respond-async, wait=1")
        assert response.status_code == 202
        assert server.http.get(response.headers["location"]).status_code == 404
        go.set()
        eventually(lambda: server.http.get(response.headers["location"]).status_code == 200)


def test_an_input_that_fails_in_adjudication_gets_422_and_later_ones_are_decided(
    file: Path, clock: TestClock
) -> None:
    def decide_or_fail(draft: Draft, record: Input, now: int) -> EncodedDecision:
        if record.value is not None and b"boom" in record.value:
            raise ZeroDivisionError
        return decide(draft, record, now)

    with LocalServer(file, clock, decide=decide_or_fail) as server:
        server.open()
        response = server.ask(purpose="boom")
        assert (response.status_code, response.json()["error"]) == (422, "internal_error")
        assert outcome(server.ask()) == (200, "granted", None)
        series = 'privacy_requests_total{dataset="",outcome="invalid",reason="internal_error"}'
        assert server.metric(series) == "1.0"


def test_concurrent_requests_are_each_decided_once(server: LocalServer, clock: TestClock) -> None:
    server.open("big", epsilon="100")
    bodies = [msgspec.json.encode(request(clock, dataset="big")) for _ in range(200)]
    answers: list[str] = []

    def send(mine: list[bytes]) -> None:
        answers.extend(server.post("/requests", body).json()["outcome"] for body in mine)

    threads = [threading.Thread(target=send, args=(bodies[i::8] * 2,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == ["granted"] * 200 + ["repeated"] * 200
    assert server.http.get("/datasets/big").json()["left"]["epsilon"] == "80"


def test_white_space_of_a_body_is_not_in_the_log(server: LocalServer, file: Path) -> None:
    body = request(server.clock)
    compact = json.dumps(body, separators=(",", ":")).encode()
    indented = json.dumps(body, indent=1).encode() + b"\n"
    outcomes = []
    for content in (indented, compact, b" " + compact + b"\n"):
        answer = server.http.post(
            "/requests", content=content, headers={"content-type": "application/json"}
        )
        assert b"\n" not in answer.content
        outcomes.append(answer.json()["outcome"])
    assert outcomes == ["granted", "repeated", "repeated"]
    log = list(read_decisions(file))
    assert not any(b"\n" in value for value in log)
    assert audit(log).ok
