"""`Prefer: replay=original`: the caller's own repeat is answered with its first decision."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import request

ORIGINAL = "replay=original"


def is_replay(response: httpx.Response) -> bool:
    marks = response.headers.get("privacy-replayed"), response.headers.get("preference-applied")
    assert marks in {(None, None), ("true", ORIGINAL)}
    return marks[0] is not None


@pytest.mark.parametrize("epsilon", ["0.1", "5"])
def test_a_repeat_is_answered_with_the_first_decision_and_marked(
    server: LocalServer, clock: TestClock, epsilon: str
) -> None:
    body = request(clock, claim={"type": "pure", "epsilon": epsilon})
    first = server.post("/requests", body, prefer=ORIGINAL)
    assert not is_replay(first)
    again = server.post("/requests", body, prefer=f"wait=9, {ORIGINAL}")
    assert is_replay(again)
    assert (again.status_code, again.content) == (200, first.content)
    assert again.headers["content-location"] == first.headers["content-location"]
    plain = server.post("/requests", body)
    assert not is_replay(plain)
    assert plain.json()["outcome"] == "repeated"
    assert plain.json()["granted"] is False
    assert plain.json()["first"]["outcome"] == first.json()["outcome"]
    totals = server.http.get("/datasets/census").json()["totals"]
    assert totals["epsilon"] == ("0.1" if epsilon == "0.1" else "0")


@pytest.mark.parametrize(
    ("prefer", "replays"),
    [
        ("replay=original", True),
        ('Replay = "original"; x', True),
        ("respond-async,replay=original,wait=3", True),
        ("replay=first", False),
        ("replay=originally", False),
        ("noreplay=original", False),
        ("replay", False),
        ('replay="original', False),
    ],
)
def test_only_the_exact_preference_counts(
    server: LocalServer, clock: TestClock, prefer: str, replays: bool
) -> None:
    body = request(clock)
    server.post("/requests", body)
    assert is_replay(server.post("/requests", body, prefer=prefer)) is replays


def test_a_conflict_stays_a_conflict(server: LocalServer, clock: TestClock) -> None:
    body = request(clock)
    server.post("/requests", body)
    for change in ({"purpose": "another"}, {"claim": {"type": "pure", "epsilon": "0.2"}}):
        found = server.post("/requests", body | change, prefer=ORIGINAL)
        assert not is_replay(found)
        assert (found.status_code, found.json()["outcome"]) == (409, "conflict")
        assert found.json()["granted"] is False


def test_another_analyst_with_the_same_id_makes_a_request_of_their_own(
    server: LocalServer, clock: TestClock
) -> None:
    body = request(clock)
    server.post("/requests", body)
    found = server.post("/requests", body | {"analyst": "ben"}, prefer=ORIGINAL)
    assert not is_replay(found)
    assert found.json()["outcome"] == "granted"
    assert found.json()["totals"]["epsilon"] == "0.2"


def test_an_expired_id_is_not_replayed(server: LocalServer, clock: TestClock) -> None:
    body = request(clock)
    server.post("/requests", body)
    clock.pass_(seconds=2 * 3600)
    found = server.post("/requests", body, prefer=ORIGINAL)
    assert not is_replay(found)
    assert found.json()["outcome"] == "expired"


def test_admin_requests_and_batches_are_not_replayed(server: LocalServer, clock: TestClock) -> None:
    closing: dict[str, Any] = {**request(clock), "type": "close", "by": "owner"}
    closing = {name: closing[name] for name in ("version", "type", "request_id", "dataset", "by")}
    body = request(clock)
    for path, sent, media_type in (
        ("/requests/batch", body, "application/x-ndjson"),
        ("/datasets/census/close", closing, "application/json"),
    ):
        for _ in range(2):
            found = server.post(path, sent, prefer=ORIGINAL, content_type=media_type)
        assert not is_replay(found)
        assert found.json()["outcome"] == "repeated"


def test_a_step_of_a_reservation_is_not_replayed(server: LocalServer, clock: TestClock) -> None:
    server.post("/requests", request(clock, reserve={"until": "PT30M"}))
    rows = server.http.get("/datasets/census/reservations").json()
    (row,) = rows if isinstance(rows, list) else rows["reservations"]
    begin: dict[str, Any] = {**request(clock), "type": "begin", "grant": row["grant"]}
    names = ("version", "type", "request_id", "analyst", "dataset", "grant")
    begin = {name: begin[name] for name in names}
    path = "/datasets/census/reservations/begin"
    found = [server.post(path, begin, prefer=ORIGINAL) for _ in range(2)]
    assert [each.json()["outcome"] for each in found] == ["begun", "repeated"]
    assert not any(map(is_replay, found))


def test_no_response_may_be_cached(server: LocalServer, clock: TestClock) -> None:
    body = request(clock)
    responses = [
        server.post("/requests", body),
        server.post("/requests", body, prefer=ORIGINAL),
        server.post("/requests", body | {"purpose": "another"}),
        server.post("/requests", b"not json"),
        server.post("/requests", request(clock), prefer="wait=0"),
        server.post("/requests/batch", body, content_type="application/x-ndjson"),
        server.http.get("/datasets/census"),
        server.http.get("/nowhere"),
        server.http.head("/datasets"),
    ]
    assert {each.headers["cache-control"] for each in responses} == {"no-store"}
