"""POST /requests/batch: each line is answered as if sent alone, whatever the other lines are."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from accountant.replay.audit import audit
from streams.embedded.ledger_file import read_decisions
from streams.gateway import batch
from streams.ndjson import LineSplitter
from streams.settings import Settings
from tests.patience import PATIENCE_S
from tests.streams.clock import TestClock
from tests.streams.gateway.contract.document import document, schema_of
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import new_id, opening, request
from tests.streams.waiting import eventually

NDJSON = "application/x-ndjson"
TINY = {"type": "pure", "epsilon": "0.0001"}
Row = dict[str, Any]


def lines(*bodies: object) -> bytes:
    return b"\n".join(
        body if isinstance(body, bytes) else msgspec.json.encode(body) for body in bodies
    )


def send(server: LocalServer, body: Any, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return server.http.post(
        "/requests/batch", content=body, headers={"content-type": NDJSON} | named
    )


def rows(response: httpx.Response) -> list[Row]:
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == NDJSON
    assert response.text.endswith("\n")
    return [json.loads(line) for line in response.text.splitlines()]


def kind(row: Row) -> str:
    """Return the outcome of a decision, or the code of a problem."""
    return str(row.get("outcome") or row["error"])


def tiny(server: LocalServer, **more: Any) -> Row:
    return request(server.clock, claim=TINY, **more)


@contextmanager
def raw_batch(server: LocalServer, *, length: int | None = None) -> Iterator[socket.socket]:
    """Connect and send the head of a batch, chunked if no length is passed."""
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as raw:
        head = f"POST /requests/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: {NDJSON}\r\n"
        raw.sendall(f"{head}{framing}\r\n\r\n".encode())
        yield raw


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(content), content)


def test_each_line_gets_what_it_would_get_alone_in_order(tmp_path: Path, clock: TestClock) -> None:
    asked = request(clock)
    bodies: list[Any] = [
        asked,
        asked,  # a repeat
        asked | {"purpose": "another"},  # a conflict
        request(clock, claim={"type": "pure", "epsilon": "5"}),
        request(clock, dataset="nowhere"),
        request(clock, claim={"type": "pure", "epsilon": 1}),
        request(clock, request_id=new_id(clock, ahead_ms=400_000)),
        request(clock, request_id=new_id(clock, ahead_ms=-2 * 3_600_000)),
        opening(clock, "other"),
        b"not json",
        b"[1]",
        b"\xff\xfe",
        b'{"a":' * 10_000,
        request(clock, analyst="ben"),
    ]
    batched, single = list[Row](), list[Row]()
    with LocalServer(tmp_path / "batch.db", clock) as server:
        server.open()
        batched = rows(send(server, lines(*bodies)))
    with LocalServer(tmp_path / "single.db", clock) as server:
        server.open()
        single = [server.post("/requests", body).json() for body in bodies]
    assert [kind(row) for row in batched] == [
        *("granted", "repeated", "conflict", "refused", "refused", "invalid_field"),
        *("issued_in_future", "expired", "invalid_field", "undecodable", "invalid_field"),
        *("undecodable", "undecodable", "granted"),
    ]
    # The hashes differ, since the ledgers were opened with different ids.
    for one, other in zip(batched, single, strict=True):
        assert one.keys() == other.keys()
        for field in ("outcome", "reason", "request", "totals", "left", "message", "field"):
            assert one.get(field) == other.get(field)


@pytest.mark.parametrize("body", [b"", iter([b""])])
def test_an_empty_body_is_400(shared_server: LocalServer, body: Any) -> None:
    response = send(shared_server, body)
    assert (response.status_code, response.json()["error"]) == (400, "undecodable")


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
@pytest.mark.parametrize("between", [b"\n", b"\r\n"])
def test_lines_end_with_lf_or_crlf_and_the_last_one_with_anything(
    server: LocalServer, between: bytes, end: bytes
) -> None:
    bodies = [msgspec.json.encode(tiny(server)) for _ in range(3)]
    found = rows(send(server, between.join(bodies) + end))
    assert [row["request"] for row in found] == [json.loads(body) for body in bodies]


def test_an_empty_line_gets_a_problem_of_its_own(server: LocalServer) -> None:
    found = rows(send(server, b"\n" + lines(tiny(server), b"", b"\r", b"  ", tiny(server))))
    assert [kind(row) for row in found] == [
        "undecodable",
        "granted",
        *["undecodable"] * 3,
        "granted",
    ]


def test_white_space_around_a_line_is_not_in_the_log(server: LocalServer, file: Path) -> None:
    body = msgspec.json.encode(request(server.clock))
    found = rows(send(server, lines(b" " + body + b" \t\r", body, b"\r " + body)))
    assert [kind(row) for row in found] == ["granted", "repeated", "repeated"]
    log = list(read_decisions(file))
    assert sum(b'"request":' + body + b"}" in value or body in value for value in log) == 3
    assert not any(b'"request": ' in value for value in log)
    assert audit(log).ok


def test_a_thousand_lines_are_decided_and_the_next_ones_are_not(server: LocalServer) -> None:
    bodies = [tiny(server) for _ in range(batch.MAX_LINES + 5)]
    before = server.last_sequence()
    found = rows(send(server, lines(*bodies)))
    assert [kind(row) for row in found] == ["granted"] * batch.MAX_LINES + ["oversize"]
    assert found[-1]["status"] == 413
    assert [row["request"] for row in found[:-1]] == bodies[: batch.MAX_LINES]
    assert server.last_sequence() == before + batch.MAX_LINES


def test_lines_above_the_maximum_are_not_split(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    split = list[bytes | None]()

    class Counted(LineSplitter):
        def feed(self, piece: bytes) -> Iterator[bytes | None]:
            for line in super().feed(piece):
                split.append(line)
                yield line

    monkeypatch.setattr(batch, "LineSplitter", Counted)
    found = rows(send(server, b"\n" * 100_000))
    assert len(found) == len(split) == batch.MAX_LINES + 1
    assert found[-1]["error"] == "oversize"


def test_a_line_one_byte_too_long_harms_no_other_line(server: LocalServer) -> None:
    limit = server.settings.most_body
    padded = msgspec.json.encode(tiny(server)).ljust(limit)
    found = rows(send(server, lines(padded, padded + b" ", b"x" * 3 * limit, tiny(server))))
    assert [kind(row) for row in found] == ["granted", "oversize", "oversize", "granted"]
    assert found[1]["status"] == 413
    assert str(limit) in found[1]["message"]


def test_a_length_above_8_mib_is_413_before_anything_is_decided(server: LocalServer) -> None:
    before = server.last_sequence()
    with raw_batch(server, length=batch.MAX_BATCH_BYTES + 1) as raw:
        raw.sendall(lines(tiny(server)) + b"\n")
        assert raw.recv(4_096).startswith(b"HTTP/1.1 413 ")
    assert server.last_sequence() == before


def test_a_body_above_8_mib_without_a_length_is_decided_to_that_point(
    server: LocalServer,
) -> None:
    def endless() -> Iterator[bytes]:
        yield lines(tiny(server)) + b"\n"
        for _ in range(130):
            yield b" " * 65_535 + b"\n"

    found = rows(send(server, endless()))
    assert kind(found[0]) == "granted"
    assert kind(found[-1]) == "oversize"
    assert {kind(row) for row in found[1:-1]} == {"undecodable"}
    assert 120 <= len(found) <= 130


@pytest.mark.parametrize(
    "declared", ["application/json", "text/plain", "application/x-www-form-urlencoded", ""]
)
def test_another_content_type_is_415(shared_server: LocalServer, declared: str) -> None:
    response = send(shared_server, lines(tiny(shared_server)), content_type=declared)
    assert (response.status_code, response.json()["error"]) == (415, "unsupported_media_type")


def test_a_compressed_body_is_415(shared_server: LocalServer) -> None:
    response = send(shared_server, b"\x1f\x8b", content_encoding="gzip")
    assert response.status_code == 415


def test_the_same_bytes_again_charge_nothing_again(server: LocalServer) -> None:
    body = lines(*(request(server.clock) for _ in range(5)))
    first, again = rows(send(server, body)), rows(send(server, body))
    assert [kind(row) for row in first] == ["granted"] * 5
    assert [kind(row) for row in again] == ["repeated"] * 5
    assert [row["first"]["hash"] for row in again] == [row["hash"] for row in first]
    view = server.http.get("/datasets/census").json()
    assert view["left"]["epsilon"] == "0.5"


def test_after_a_cut_the_same_bytes_are_decided_once(file: Path, clock: TestClock) -> None:
    with LocalServer(file, clock) as server:
        server.open()
        bodies = [lines(tiny(server)) for _ in range(20)]
        whole = b"\n".join(bodies)
        # The cut line is valid JSON already: only its end is missing.
        cut_after = len(b"\n".join(bodies[:7]))
        with raw_batch(server, length=len(whole)) as raw:
            raw.sendall(whole[:cut_after])
            received = b""
            while received.count(b'"granted":true') < 6:
                received += raw.recv(65_536)
        assert server.last_sequence() == 7  # the opening and six lines
        found = rows(send(server, whole))
        assert [kind(row) for row in found] == ["repeated"] * 6 + ["granted"] * 14
        assert server.http.get("/datasets/census").json()["totals"]["epsilon"] == "0.002"
    assert audit([*read_decisions(file)]).ok


def test_responses_arrive_while_the_body_is_still_being_sent(server: LocalServer) -> None:
    with raw_batch(server) as raw:
        for number in range(1, 4):
            raw.sendall(chunk(lines(tiny(server)) + b"\n"))
            received = b""
            while received.count(b'"granted":true') < 1:
                received += raw.recv(65_536)
            assert server.last_sequence() == 1 + number
        raw.sendall(b"0\r\n\r\n")
        assert raw.recv(65_536).endswith(b"0\r\n\r\n")


def test_a_line_that_arrives_byte_by_byte_is_decided(server: LocalServer) -> None:
    body = lines(tiny(server)) + b"\n"
    with raw_batch(server) as raw:
        for i in range(len(body)):
            raw.sendall(chunk(body[i : i + 1]))
        raw.sendall(b"0\r\n\r\n")
        received = b""
        while not received.endswith(b"0\r\n\r\n"):
            received += raw.recv(65_536)
    assert received.count(b'"granted":true') == 1


@pytest.mark.slow
def test_a_client_that_stops_within_a_body_is_disconnected(server: LocalServer) -> None:
    with raw_batch(server) as raw:
        raw.sendall(chunk(lines(tiny(server)) + b"\n{"))
        received, more = b"", b" "
        while more:
            more = raw.recv(65_536)
            received += more
    assert received.count(b'"granted":true') == 1
    assert not received.endswith(b"0\r\n\r\n")
    assert kind(rows(send(server, lines(tiny(server))))[0]) == "granted"


def test_a_client_may_send_everything_before_it_reads(server: LocalServer) -> None:
    """As most HTTP libraries do: a full socket must not stop both sides."""
    purpose = "x" * 200
    bodies = [tiny(server, purpose=purpose) for _ in range(batch.MAX_LINES)]
    body = lines(*bodies)
    with raw_batch(server, length=len(body)) as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        raw.sendall(body)
        eventually(lambda: server.last_sequence() == 1 + batch.MAX_LINES)
        received = b""
        while not received.endswith(b"0\r\n\r\n"):
            received += raw.recv(65_536)
    assert received.count(b'"granted":true') == batch.MAX_LINES


def test_a_client_that_reads_nothing_is_not_read_from_without_end(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "MAX_HELD_BYTES", 20_000)
    bodies = [tiny(server, purpose="x" * 200) for _ in range(batch.MAX_LINES)]
    body = lines(*bodies)
    with raw_batch(server, length=len(body)) as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        raw.setblocking(False)
        sent, until = 0, time.monotonic() + 3
        while time.monotonic() < until and sent < len(body):
            try:
                sent += raw.send(body[sent:])
            except BlockingIOError:
                time.sleep(0.05)
        assert server.last_sequence() < batch.MAX_LINES
    again = [row["outcome"] for row in rows(send(server, body))]
    assert set(again) <= {"granted", "repeated"}
    assert len(again) == batch.MAX_LINES


def test_at_most_so_many_lines_are_undecided(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "MAX_UNDECIDED", 3)
    found = rows(send(server, lines(*(tiny(server) for _ in range(50)))))
    assert [kind(row) for row in found] == ["granted"] * 50


def test_a_line_that_is_not_decided_in_time_is_pending(server: LocalServer) -> None:
    bodies = [tiny(server) for _ in range(3)]
    found = rows(send(server, lines(*bodies), prefer="wait=0"))
    assert [row["status"] for row in found] == ["pending"] * 3
    for row, body in zip(found, bodies, strict=True):
        assert body["request_id"] in row["location"]
        eventually(lambda at=row["location"]: server.http.get(at).status_code == 200)  # type: ignore[misc]


def test_a_server_with_too_many_batches_says_so(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "MAX_BATCHES", 1)
    with raw_batch(server) as raw:
        raw.sendall(chunk(lines(tiny(server)) + b"\n"))
        assert raw.recv(65_536).startswith(b"HTTP/1.1 200 ")
        refused = send(server, lines(tiny(server)))
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    body = lines(tiny(server))
    eventually(lambda: send(server, body).status_code == 200)


def test_lines_count_in_the_limit_of_their_address(tmp_path: Path, clock: TestClock) -> None:
    settings = Settings(port=0, limit_per_second=1, limit_by="X-Forwarded-For")
    with LocalServer(tmp_path / "ledger.db", clock, settings) as server:
        server.open()
        body = lines(*(tiny(server) for _ in range(13)))
        found = rows(send(server, body, X_Forwarded_For="203.0.113.7"))
        assert [kind(row) for row in found] == ["granted"] * 10 + ["too_many_requests"] * 3
        assert [row["status"] for row in found[10:]] == [429] * 3
        assert {row["retry_after"] for row in found[10:]} == {1}
        assert server.metric("privacy_http_limited_requests_total") == "3.0"
        alone = server.post("/requests", tiny(server), X_Forwarded_For="203.0.113.7")
        assert alone.status_code == 429
        assert "retry_after" not in alone.json()


def test_the_document_names_the_schema_of_each_line(tmp_path: Path, clock: TestClock) -> None:
    settings = Settings(port=0, limit_per_second=1, limit_by="X-Forwarded-For")
    with LocalServer(tmp_path / "ledger.db", clock, settings) as server:
        server.open()
        whole = document(server)
        asked = tiny(server)
        bad = [{**asked, "unit": "household"}, {**asked, "claim": 1}]
        body = lines(asked, asked, *bad, *[b"no JSON"] * 10)
        found = rows(send(server, body, X_Forwarded_For="203.0.113.7"))
        limited = next(row for row in found if "retry_after" in row)
        found += rows(send(server, lines(tiny(server)), prefer="wait=0"))
    operation = whole["paths"]["/requests/batch"]["post"]
    sent, received = (
        schema_of(whole, content["application/x-ndjson"]["schema"]["x-itemSchema"])
        for content in (
            operation["requestBody"]["content"],
            operation["responses"]["200"]["content"],
        )
    )
    sent.validate(asked)
    *decided, pending = found
    assert {"granted", "repeated", "conflict", "undecodable", "too_many_requests"} <= {
        kind(row) for row in decided
    }
    assert pending["status"] == "pending"
    for row in found:
        received.validate(row)
    for wrong in ({}, {"status": "pending"}, {**limited, "retry_after": "1"}):
        assert not received.is_valid(wrong)
