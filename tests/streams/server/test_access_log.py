"""The access log and the ids of requests, of a real server with authentication."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

from tests.every_case import every_case
from tests.ledger_file import connected
from tests.streams.server.logged_server import LoggedServer, asking, new_id
from tests.streams.waiting import eventually

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE_ID}-00f067aa0ba902b7-01"
OWN_ID = re.compile(r"[0-9a-f]{32}")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoggedServer]:
    limit = {"ACCOUNTANT_LIMIT_BY": "X-Real-IP", "ACCOUNTANT_LIMIT_PER_SECOND": "1"}
    with LoggedServer(tmp_path_factory.mktemp("logged"), limit) as made:
        made.open()
        yield made


def test_a_line_says_who_asked_for_what_and_how_it_ended(server: LoggedServer) -> None:
    response = server.http.get(
        "/datasets/census/budgets/ana?SECRET-QUERY=1",
        headers={
            **server.auth("ana"),
            "Cookie": "session=SECRET-COOKIE",
            "X-Real-IP": "203.0.113.7",
            "X-Request-Id": "check-1",
            "traceparent": TRACEPARENT,
        },
    )
    assert response.headers["x-request-id"] == "check-1"
    assert response.headers["traceparent"] == TRACEPARENT
    line = server.line_of("check-1")
    assert line.pop("seconds") >= 0
    assert line.pop("timestamp")
    assert line == {
        "event": "http_request",
        "level": "info",
        "method": "GET",
        "path": "/datasets/census/budgets/ana",
        "status": 400,  # no parameter has this name
        "bytes": len(response.content),
        "caller": "ana",
        "client": "203.0.113.7",
        "http_request_id": "check-1",
        "trace_id": TRACE_ID,
    }


def test_no_token_cookie_query_or_body_is_logged(server: LoggedServer) -> None:
    secret = {"Cookie": "SECRET-COOKIE", "X-Request-Id": "check-secrets"}
    wrong = {"Authorization": "Bearer SECRET-TOKEN", **secret}
    assert server.http.get("/datasets?token=SECRET-QUERY", headers=wrong).status_code == 401
    body = {**asking(), "purpose": "SECRET-BODY"}
    assert server.post("ana", "/requests?a=SECRET-QUERY", body).status_code == 400
    sent = server.post("ana", "/requests", body, X_Request_Id="check-body")
    assert sent.status_code == 200
    assert server.line_of("check-body")["caller"] == "ana"
    # The line of the earlier request on this connection is written before.
    lines = [line for line in server.lines() if line["http_request_id"] == "check-secrets"]
    assert [line["path"] for line in lines] == ["/datasets"]
    log = server.log.read_text()
    assert "SECRET" not in log
    for token in server.tokens.values():
        assert token not in log


@every_case(
    ("sent", "status"),
    [
        (b"GET /datasets HTTP/1.1\r\nHost: h\r\n", 401),
        (b"GET /nowhere HTTP/1.1\r\nHost: h\r\nAuthorization: Basic x\r\n", 401),
        (b"FETCH /datasets HTTP/1.1\r\nHost: h\r\n", 401),
        (b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n", 200),
        (b"HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n", 200),
    ],
)
def test_a_request_refused_before_its_route_is_logged_too(
    server: LoggedServer, sent: bytes, status: int
) -> None:
    response = server.exchanged(sent + b"Connection: close\r\n\r\n").decode()
    assert f"HTTP/1.1 {status} " in response
    (own,) = re.findall(r"\r\nx-request-id: ([^\r]*)\r\n", response)
    assert OWN_ID.fullmatch(own)
    method, path, _ = sent.decode().split(" ", 2)
    line = server.line_of(own)
    assert (line["method"], line["path"], line["status"]) == (method, path, status)
    assert (line["caller"], line["trace_id"]) == (None, None)


def test_a_request_over_the_rate_limit_is_logged_with_its_address(server: LoggedServer) -> None:
    headers = {"X-Real-IP": "198.51.100.9", "X-Request-Id": "check-limit"}
    while True:
        response = server.http.get("/schema/openapi.json", headers=headers)
        if response.status_code == 429:
            break
    assert response.headers["x-request-id"] == "check-limit"
    eventually(lambda: server.lines()[-1]["status"] == 429)
    assert server.lines()[-1]["client"] == "198.51.100.9"


@every_case(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"GET /\x1b[2J HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nA: " + b"a" * 70_000 + b"\r\n\r\n", 431),
    ],
)
def test_a_malformed_request_is_logged_without_its_text(
    server: LoggedServer, sent: bytes, status: int
) -> None:
    response = server.exchanged(sent).decode()
    assert response.startswith(f"HTTP/1.1 {status} ")
    (own,) = re.findall(r"\r\nx-request-id: ([^\r]*)\r\n", response)
    line = server.line_of(own)
    assert (line["status"], line["method"], line["path"]) == (status, None, None)
    assert line["bytes"] == len(response.partition("\r\n\r\n")[2])


def test_a_malformed_body_is_one_line_with_the_status_that_was_sent(server: LoggedServer) -> None:
    head = f"POST /requests HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {server.tokens['ana']}\r\n"
    more = "Content-Type: application/json\r\nX-Request-Id: check-chunk\r\n"
    chunked = "Transfer-Encoding: chunked\r\n\r\nnot a size\r\n"
    response = server.exchanged(f"{head}{more}{chunked}".encode()).decode()
    assert response.startswith("HTTP/1.1 400 ")
    (given,) = re.findall(r"\r\nx-request-id: ([^\r]*)\r\n", response)
    line = server.line_of(given)
    assert line["status"] == 400


@every_case("path", ["/a%0a%7B%22event%22:1%7D", "/a%00%1b%5b2J%e2%80%a8", "/a%3Fb"])
def test_an_encoded_path_stays_encoded_on_one_line(server: LoggedServer, path: str) -> None:
    sent = f"GET {path}?q=SECRET HTTP/1.1\r\nHost: h\r\nX-Request-Id: p{len(path)}\r\n"
    server.exchanged(f"{sent}Connection: close\r\n\r\n".encode())
    assert server.line_of(f"p{len(path)}")["path"] == path


def test_a_long_path_is_cut(server: LoggedServer) -> None:
    server.http.get(f"/{'a' * 5_000}", headers={"X-Request-Id": "check-long"})
    assert server.line_of("check-long")["path"] == f"/{'a' * 499}..."


@every_case("value", [b"x" * 65, b"a b", b"a;b", "ä".encode(), b"a\tb", b""])
def test_an_id_of_another_form_is_replaced(server: LoggedServer, value: bytes) -> None:
    response = server.http.get("/healthz", headers=[(b"X-Request-Id", value)])
    assert OWN_ID.fullmatch(response.headers["x-request-id"])
    assert "x-request-id" not in response.text
    assert server.line_of(response.headers["x-request-id"])["status"] == 200


def test_requests_without_an_id_get_different_ones(server: LoggedServer) -> None:
    found = {server.http.get("/healthz").headers["x-request-id"] for _ in range(20)}
    assert len(found) == 20


def test_an_invalid_traceparent_is_not_returned(server: LoggedServer) -> None:
    response = server.http.get("/healthz", headers={"traceparent": TRACEPARENT.upper()})
    assert "traceparent" not in response.headers
    assert server.line_of(response.headers["x-request-id"])["trace_id"] is None


def test_a_batch_is_one_line_with_its_number_of_lines(server: LoggedServer) -> None:
    lines = [msgspec.json.encode({"version": 1, "request_id": new_id(), **asking()})] * 3
    headers = {"content-type": "application/x-ndjson", "X-Request-Id": "check-batch"}
    body = b"\n".join([*lines, b"not JSON"])
    response = server.http.post(
        "/requests/batch", content=body, headers={**headers, **server.auth("ana")}
    )
    assert response.status_code == 200
    line = server.line_of("check-batch")
    assert (line["lines"], line["status"], line["bytes"]) == (4, 200, len(response.content))


def test_a_stream_of_events_is_logged_at_its_end(server: LoggedServer) -> None:
    headers = {**server.auth("root"), "X-Request-Id": "check-stream"}
    with server.http.stream("GET", "/events", headers=headers) as response:
        assert response.headers["x-request-id"] == "check-stream"
        assert not [x for x in server.lines() if x["http_request_id"] == "check-stream"]
    line = server.line_of("check-stream")
    assert (line["path"], line["status"], line["caller"]) == ("/events", 200, "root")


def test_other_events_of_a_request_have_its_ids(server: LoggedServer) -> None:
    policy = {"filter": "basic", "epsilon": "1"}
    body = {"type": "open", "dataset": "other", "by": "root", "policy": policy}
    server.post("root", "/datasets", body, X_Request_Id="check-opened", traceparent=TRACEPARENT)
    lines = [line for line in server.log.read_text().splitlines() if "check-opened" in line]
    (opened,) = [line for line in lines if "dataset_opened" in line]
    assert TRACE_ID in opened


def test_no_id_of_a_request_reaches_the_ledgers_file(server: LoggedServer) -> None:
    body = {**asking(), "request_id": new_id()}
    sent = server.post(
        "ana", "/requests", body, X_Request_Id="check-ledger", traceparent=TRACEPARENT
    )
    assert sent.json()["outcome"] == "granted"
    assert "check-ledger" not in sent.text
    with connected(server.log.with_name("ledger.db"), read_only=True) as file:
        schema = "SELECT name FROM sqlite_schema WHERE type = 'table'"
        tables = [name for (name,) in file.execute(schema)]
        stored = {name: repr(file.execute(f"SELECT * FROM {name}").fetchall()) for name in tables}
    assert body["request_id"] in stored["decisions"]
    assert not [name for name in tables if "check-" in stored[name] or TRACE_ID in stored[name]]


def test_lines_are_json_beside_a_readable_log(server: LoggedServer) -> None:
    lines = server.log.read_text().splitlines()
    starts = [line for line in lines if "authentication_is_on" in line]
    assert starts
    assert not starts[0].startswith("{")
    assert all(json.loads(line)["event"] for line in lines if "http_request " in line)


@pytest.mark.parametrize(
    ("level", "shown"),
    [("off", []), ("errors", [401]), ("requests", [401, 200]), ("all", [200, 401, 200])],
)
def test_the_level_chooses_the_requests(tmp_path: Path, level: str, shown: list[int]) -> None:
    settings = {"ACCOUNTANT_ACCESS_LOG": level, "ACCOUNTANT_LOG_LEVEL": "error"}
    with LoggedServer(tmp_path, {**settings, "ACCOUNTANT_LOG_FORMAT": "json"}) as server:
        for path, headers in (("/healthz", {}), ("/me", {}), ("/me", server.auth("ana"))):
            response = server.http.get(path, headers=headers)
            assert OWN_ID.fullmatch(response.headers["x-request-id"])
        eventually(lambda: len(server.lines()) >= len(shown))
        assert [line["status"] for line in server.lines()] == shown


def test_the_default_is_off(tmp_path: Path) -> None:
    settings = {"ACCOUNTANT_LOG_FORMAT": "json"}
    with LoggedServer(tmp_path, settings) as server:
        del server._environment["ACCOUNTANT_ACCESS_LOG"]
        server.kill()
        server.start()
        assert httpx.get(f"{server.address}/me").status_code == 401
        assert server.lines("authentication_is_on")
        assert not server.lines()


def test_the_port_for_probes_has_lines_and_ids_too(tmp_path: Path) -> None:
    with LoggedServer(
        tmp_path, {"ACCOUNTANT_PROBE_PORT": "0", "ACCOUNTANT_LOG_FORMAT": "json"}
    ) as server:
        (listens,) = server.lines("probes_listen")
        response = httpx.get(f"http://127.0.0.1:{listens['port']}/readyz")
        assert server.line_of(response.headers["x-request-id"])["path"] == "/readyz"
