"""The rate limit of an address: which requests count, and the answer beyond it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from streams.client import Accountant
from streams.clock import SystemClock
from streams.errors import Refused
from streams.server import rate_limit
from streams.server.rate_limit import AT_ONCE, RateLimiter, address_of
from streams.settings import Settings, load
from tests.every_case import every_case
from tests.patience import PATIENCE_S
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import request

FORWARDED = "X-Forwarded-For"
ONE, OTHER = "203.0.113.7", "203.0.113.8"


def admitted(limit: RateLimiter, key: str, times: int) -> int:
    return sum(limit.wait(key) == 0 for _ in range(times))


def test_an_address_may_send_a_burst_and_then_its_rate() -> None:
    clock = TestClock()
    limit = RateLimiter(5, clock.monotonic)
    assert admitted(limit, "a", 100) == 5 * AT_ONCE
    assert limit.wait("a") == pytest.approx(0.2)
    clock.pass_(seconds=1)
    assert admitted(limit, "a", 100) == 5
    assert admitted(limit, "b", 100) == 5 * AT_ONCE  # whatever another has sent
    clock.pass_(seconds=1_000)
    assert admitted(limit, "a", 100) == 5 * AT_ONCE


def test_a_rate_below_one_admits_single_requests() -> None:
    clock = TestClock()
    limit = RateLimiter(0.01, clock.monotonic)
    assert admitted(limit, "a", 3) == 1
    assert limit.wait("a") == pytest.approx(100)
    clock.pass_(seconds=101)
    assert admitted(limit, "a", 3) == 1


def test_the_number_of_remembered_addresses_is_bounded() -> None:
    limited = RateLimiter(0.01, TestClock().monotonic)
    for number in range(rate_limit.MOST_ADDRESSES + 100):
        limited.wait(str(number))
        limited.wait("busy")
    assert len(limited) == rate_limit.MOST_ADDRESSES
    assert limited.wait("busy") > 0  # the one longest silent is forgotten first
    assert limited.wait("0") == 0


def of(peer: str | None, by: str | None, **headers: str) -> str | None:
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope: Any = {"client": None if peer is None else (peer, 1), "headers": named}
    return address_of(scope, by)


def test_without_the_setting_only_direct_remote_peers_are_counted() -> None:
    assert of(ONE, None) == ONE
    assert of("127.0.0.1", None) is None
    assert of("::1", None) is None
    assert of(None, None) is None  # a socket of this machine
    for header in ("x_forwarded_for", "forwarded", "x_real_ip"):
        assert of(ONE, None, **{header: OTHER}) is None
    assert of("::ffff:203.0.113.7", None) == ONE
    assert of("2001:db8:1:2:3::4", None) == of("2001:db8:1:2:ffff::1", None) == "2001:db8:1:2::/64"


def test_limiting_by_peer_ignores_forwarding_headers() -> None:
    assert of(ONE, "peer", x_forwarded_for=OTHER) == ONE
    assert of("127.0.0.1", "peer", x_forwarded_for=OTHER) is None


@every_case(
    ("result", "counted"),
    [
        (OTHER, OTHER),
        (f"198.51.100.1, {OTHER}", OTHER),  # what stands before it the client may have written
        (f"{OTHER}:4711", OTHER),
        ("[2001:db8::1]:80", "2001:db8::/64"),
        ("2001:db8::1", "2001:db8::/64"),
        ("unknown", ONE),
        ("", ONE),
        ("127.0.0.1", ONE),
        ("\xff", ONE),
    ],
)
def test_limiting_by_a_header_counts_its_last_address(result: str, counted: str) -> None:
    assert of(ONE, FORWARDED, x_forwarded_for=result) == counted
    assert of(ONE, FORWARDED, x_real_ip=result) == ONE


def test_of_several_forwarding_headers_the_last_one_counts() -> None:
    headers = [(b"x-forwarded-for", b"198.51.100.1"), (b"x-forwarded-for", OTHER.encode())]
    scope: Any = {"client": (ONE, 1), "headers": headers}
    assert address_of(scope, FORWARDED) == OTHER


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalServer]:
    """A server behind a proxy, with one request an address, and another after 100 seconds."""
    settings = Settings(port=0, limit_per_second=0.01, limit_by=FORWARDED)
    with LocalServer(tmp_path / "ledger.db", TestClock(), settings) as server:
        yield server


def test_requests_over_the_limit_get_429_and_no_decision(server: LocalServer) -> None:
    server.open()
    before = server.last_sequence()
    body = request(server.clock)
    assert server.post("/requests", body, X_Forwarded_For=ONE).json()["granted"] is True
    refused = server.post("/requests", request(server.clock), X_Forwarded_For=ONE)
    assert refused.status_code == 429
    assert refused.headers["content-type"] == "application/problem+json"
    assert 0 < int(refused.headers["retry-after"]) <= 100
    result = refused.json()
    assert (result["error"], result["status"]) == ("too_many_requests", 429)
    assert result["message"] == result["detail"]
    assert server.last_sequence() == before + 1
    assert server.post("/requests", request(server.clock), X_Forwarded_For=OTHER).status_code == 200
    spoofed = server.post("/requests", body, X_Forwarded_For=f"{OTHER}9, {ONE}")
    assert spoofed.status_code == 429
    assert server.metric("privacy_http_limited_requests_total") == "2.0"


def test_a_preview_counts_as_a_request(server: LocalServer) -> None:
    server.open()
    body = {"claim": {"type": "pure", "epsilon": "0.1"}, "unit": "person"}
    body["neighbours"] = "add_remove"
    answers = [server.post("/datasets/census/preview", body, X_Forwarded_For=ONE) for _ in range(2)]
    assert [each.status_code for each in answers] == [200, 429]
    assert server.post("/requests", request(server.clock), X_Forwarded_For=ONE).status_code == 429


def test_a_rate_limited_request_gets_429_before_its_body(server: LocalServer) -> None:
    headers = {"X-Forwarded-For": ONE, "content-type": "application/json"}
    server.http.get("/datasets", headers=headers)
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as sent:
        sent.sendall(
            b"POST /requests HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: "
            + ONE.encode()
            + b"\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
        )
        assert sent.recv(4096).startswith(b"HTTP/1.1 429 ")


def test_every_path_is_rate_limited_but_health_routes(server: LocalServer) -> None:
    headers = {"X-Forwarded-For": ONE}
    assert server.http.get("/nothing", headers=headers).status_code == 404
    for path in (
        "/datasets",
        "/events",
        "/metrics",
        "/schema/openapi.json",
        "/nothing",
    ):
        assert server.http.get(path, headers=headers).status_code == 429
        head = server.http.head(path, headers=headers)
        assert (head.status_code, head.content) == (429, b"")
    for path in ("/healthz", "/readyz"):
        for _ in range(3):
            assert server.http.get(path, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "settings",
    [
        Settings(port=0, limit_per_second=0.01),
        Settings(port=0, limit_per_second=0, limit_by="peer"),
    ],
)
def test_local_callers_and_a_rate_of_zero_have_no_rate_limit(
    tmp_path: Path, settings: Settings
) -> None:
    with LocalServer(tmp_path / "ledger.db", TestClock(), settings) as server:
        for _ in range(5):
            for headers in ({}, {FORWARDED: ONE}):
                assert server.http.get("/datasets", headers=headers).status_code == 200
        assert server.metric("privacy_http_limited_requests_total") in {None, "0.0"}


@pytest.fixture
def proxied(tmp_path: Path) -> Iterator[tuple[str, LocalServer]]:
    """The address of a proxy before a server that admits ten requests, and one a second after."""
    settings = Settings(port=0, limit_per_second=1, limit_by=FORWARDED)

    class Proxy(BaseHTTPRequestHandler):
        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {**self.headers, "Host": "localhost", FORWARDED: ONE}
            url = server.url + self.path
            answer = httpx.request(
                self.command, url, headers=headers, content=body, timeout=PATIENCE_S
            )
            self.send_response(answer.status_code)
            for name in ("content-type", "retry-after", "content-length"):
                if name in answer.headers:
                    self.send_header(name, answer.headers[name])
            self.end_headers()
            self.wfile.write(answer.content)

        do_GET = do_POST = _pass_on  # noqa: N815 (the library's names)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with LocalServer(tmp_path / "ledger.db", SystemClock(), settings) as server:
        server.open()
        proxy = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{proxy.server_port}", server
        proxy.shutdown()
        thread.join()
        proxy.server_close()


def test_a_client_waits_for_retry_after_and_sends_the_same_bytes_again(
    proxied: tuple[str, LocalServer],
) -> None:
    url, server = proxied
    with Accountant(url) as ledger:
        replies = [
            ledger.ask("census", "pure:0.01", analyst="ana", unit="person", neighbours="add_remove")
            for _ in range(13)
        ]
    assert all(reply.granted for reply in replies)
    refused = float(server.metric("privacy_http_limited_requests_total") or 0)
    assert 1 <= refused <= 4  # one for each request above ten, not one for each short pause
    assert [reply.left["epsilon"] for reply in replies][-1] == 1 - 13 * replies[0].cost["epsilon"]


@every_case("value", ["X Forwarded", "", "a:b", "Forwarded", "x" * 101, "Ünter"])
def test_an_invalid_name_of_the_forwarding_header_is_refused(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCOUNTANT_LIMIT_BY", value)
    with pytest.raises(Refused, match="ACCOUNTANT_LIMIT_BY"):
        load()


@every_case("value", ["-1", "1e-300", "0.0009", "nan", "inf", "100001"])
def test_an_invalid_rate_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCOUNTANT_LIMIT_PER_SECOND", value)
    with pytest.raises(Refused, match="ACCOUNTANT_LIMIT_PER_SECOND"):
        load()


def test_the_openapi_document_has_429_if_a_rate_limit_is_set(server: LocalServer) -> None:
    paths = server.http.get("/schema/openapi.json").json()["paths"]
    operations = [each for item in paths.values() for each in item.values()]
    assert len(operations) > 10
    for operation in operations:
        answer = operation["responses"].get("429")
        if operation["operationId"] in {"healthz", "readyz"}:
            assert answer is None
        else:
            assert answer["headers"]["Retry-After"]["required"] is True
            assert [*answer["content"]] == ["application/problem+json"]
