"""`POST /requests` answered directly equals the same request answered by Litestar."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import httpx
import msgspec

from tests.every_case import every_case
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import request

CHANGES: list[dict[str, Any]] = [
    {},
    {"dataset": "nowhere"},
    {"type": "open"},
    {"claim": {"type": "pure", "epsilon": "-1"}},
    {"request_id": "1"},
    {"purpose": "x" * 70_000},
    {"other": 1},
]
SMALL = {"type": "pure", "epsilon": "0.001"}
TWICE = [("X-Twice", "1"), ("X-Twice", "2")]
"""A request with a header sent twice is Litestar's in any case."""
VOLATILE = re.compile(rb"sha256:[0-9a-f]{64}|[0-9a-f-]{36}|sequence\":[0-9]+|offset\":[0-9]+")
HOSTS = {"localhost": 200, "127.0.0.1:1": 200, "[::1]": 200, "evil.example": 421, "a_b": 421}
AMOUNTS = re.compile(rb'"(totals|left|cost|odometers)":{[^}]*}')
JSON = ("Content-Type", "application/json")


def shown(response: httpx.Response) -> tuple[int, bytes, dict[str, str]]:
    changing = {"date", "x-request-id", "content-length"}
    headers = {
        name: VOLATILE.sub(b"", value.encode()).decode()
        for name, value in response.headers.items()
        if name not in changing
    }
    body = AMOUNTS.sub(b"", VOLATILE.sub(b"", response.content))
    return response.status_code, body, headers


def compare(
    server: LocalServer, headers: list[tuple[str, str]], body: Callable[[], object]
) -> httpx.Response:
    """Send a body of its own each way, compare the responses, and return the direct one."""
    directly, by_litestar = [
        server.http.post(
            "/requests", content=msgspec.json.encode(body()), headers=[*headers, *more]
        )
        for more in ([], TWICE)
    ]
    assert shown(directly) == shown(by_litestar)
    return directly


@every_case(
    "headers",
    [
        [JSON],
        [("content-type", "application/json; charset=utf-8")],
        [("content-type", "text/plain")],
        [],
        [JSON, ("Prefer", "wait=0")],
        [JSON, ("Prefer", "wait=2, replay=original")],
        [JSON, ("Content-Encoding", "gzip")],
        [JSON, ("Content-Encoding", "identity")],
        [JSON, ("Accept", "text/html")],
    ],
)
def test_an_answer_is_the_same_without_litestar(
    server: LocalServer, headers: list[tuple[str, str]]
) -> None:
    for change in CHANGES:
        compare(server, headers, lambda change=change: request(server.clock, claim=SMALL) | change)


def test_a_foreign_host_is_rejected_either_way(server: LocalServer) -> None:
    for host, status in HOSTS.items():
        answered = compare(
            server, [JSON, ("Host", host)], lambda: request(server.clock, claim=SMALL)
        )
        assert answered.status_code == status, host


def test_a_repeat_is_replayed_either_way(server: LocalServer) -> None:
    body = request(server.clock)
    server.post("/requests", body)
    replayed = compare(server, [JSON, ("Prefer", "replay=original")], lambda: body)
    assert replayed.headers["privacy-replayed"] == "true"


def test_a_body_in_chunks_and_another_method_are_litestars(server: LocalServer) -> None:
    body = msgspec.json.encode(request(server.clock))
    sent = server.http.post("/requests", content=iter([body]), headers=[JSON])
    assert sent.json()["outcome"] == "granted"
    assert server.http.put("/requests", json={}).status_code == 405


def test_a_body_above_the_limit_is_413_either_way(server: LocalServer) -> None:
    most = server.settings.most_body
    assert compare(server, [JSON], lambda: "x" * most).status_code == 413
