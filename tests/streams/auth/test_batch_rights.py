"""Each line of a batch is authorized, counted and redacted as if it was sent alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streams.gateway import batch
from tests.streams.auth.roles_server import RolesServer
from tests.streams.gateway.records import request

Row = dict[str, Any]
CLAIM = {"type": "pure", "epsilon": "0.001"}


@pytest.fixture
def server(tmp_path: Path) -> Any:
    with RolesServer(tmp_path) as made:
        made.furnish()
        yield made


def request_row(server: RolesServer, dataset: str, analyst: str, **more: Any) -> Row:
    return request(server.clock, dataset=dataset, analyst=analyst, claim=CLAIM, **more)


def send(server: RolesServer, name: str, *bodies: Row) -> list[Row]:
    headers = {"content-type": "application/x-ndjson"} | server.auth_headers(name)
    content = b"\n".join(map(msgspec.json.encode, bodies))
    response = server.http.post("/requests/batch", content=content, headers=headers)
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.text.splitlines()]


def metric(server: RolesServer, series: str) -> str:
    found = server.see("root", "/metrics").text.splitlines()
    return next(line.removeprefix(f"{series} ") for line in found if line.startswith(series))


def kind(row: Row) -> str:
    return str(row.get("outcome") or row["error"])


def test_each_line_is_authorized(server: RolesServer) -> None:
    before = server.last_sequence()
    found = send(
        server,
        "ana",
        request_row(server, "closed-own", "ana"),
        request_row(server, "closed-own", "ben"),
        request_row(server, "elsewhere", "ana"),
        request_row(server, "nowhere", "ana"),
        request_row(server, "closed-own", "ben", via="ana"),
        request_row(server, "open-own", "ana"),
    )
    assert [kind(row) for row in found] == ["granted", *["not_permitted"] * 4, "granted"]
    assert server.last_sequence() == before + 2
    hidden, unknown = (row["message"].replace("elsewhere", "nowhere") for row in found[2:4])
    assert hidden.partition(";")[0] == unknown.partition(";")[0]
    alone = server.send("ana", "/requests", request_row(server, "closed-own", "ben"))
    assert found[1] == alone.json()


def test_an_analyst_of_another_dataset_is_refused_every_line(server: RolesServer) -> None:
    before = server.last_sequence()
    found = send(server, "otto", *(request_row(server, "closed-all", "otto") for _ in range(3)))
    assert [kind(row) for row in found] == ["not_permitted"] * 3
    assert server.last_sequence() == before
    assert metric(server, 'privacy_http_not_permitted_total{action="request"}') == "3.0"


def test_an_engine_sends_the_requests_of_many_analysts(server: RolesServer) -> None:
    found = send(
        server,
        "eng",
        request_row(server, "closed-own", "ana", via="eng"),
        request_row(server, "closed-own", "ben", via="eng"),
        request_row(server, "closed-own", "zoe", via="eng"),  # is no member
        request_row(server, "closed-own", "ana"),  # without `via` it is not the engine's name
        request_row(server, "elsewhere", "otto", via="eng"),  # has no engine
        request_row(server, "closed-own", "ana", via="other"),
    )
    assert [kind(row) for row in found] == ["granted", "granted", *["not_permitted"] * 4]


def test_each_line_is_redacted(server: RolesServer) -> None:
    """An id that an engine uses again may be another analyst's first one."""
    first = server.granted("closed-own", "ana", via="eng")
    again = first | {"purpose": "another"}
    alone = server.send("eng", "/requests", again)
    (found,) = send(server, "eng", again)
    assert (alone.status_code, kind(found)) == (409, "conflict")
    assert found.keys() == alone.json().keys()


def test_a_batch_needs_a_token(server: RolesServer) -> None:
    response = server.http.post(
        "/requests/batch", content=b"{}", headers={"content-type": "application/x-ndjson"}
    )
    assert response.status_code == 401


def test_one_caller_has_at_most_so_many_batches(
    server: RolesServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "MAX_BATCHES_OF_ONE", 0)
    headers = {"content-type": "application/x-ndjson"} | server.auth_headers("ana")
    response = server.http.post("/requests/batch", content=b"{}", headers=headers)
    assert (response.status_code, response.json()["error"]) == (429, "too_many_batches")
    assert response.headers["retry-after"] == "1"


def test_lines_count_in_the_limit_of_their_caller(tmp_path: Path) -> None:
    settings = {"limit_per_name": 1}
    with RolesServer(tmp_path, settings=settings) as server:
        server.open_for_olga("census")
        found = send(server, "ana", *(request_row(server, "census", "ana") for _ in range(12)))
        assert [kind(row) for row in found] == ["granted"] * 10 + ["too_many_requests"] * 2
        assert found[10]["retry_after"] == 1
        assert "ana" in found[10]["message"]
        refused = server.send("ana", "/requests", request_row(server, "census", "ana"))
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert kind(send(server, "ben", request_row(server, "census", "ben"))[0]) == "granted"
        assert metric(server, "privacy_http_limited_by_name_total") == "3.0"


def test_authenticated_callers_of_one_address_are_counted_apart(tmp_path: Path) -> None:
    settings = {"limit_per_name": 0.1, "limit_per_second": 0.1, "limit_by": "X-Real-IP"}
    with RolesServer(tmp_path, settings=settings) as server:
        server.http.headers["X-Real-IP"] = "203.0.113.7"
        for name in ("ana", "ben", "eng"):
            assert server.http.get("/me", headers=server.auth_headers(name)).status_code == 200
            assert server.http.get("/me", headers=server.auth_headers(name)).status_code == 429
        # Without a valid token, and from the same address: one such request, as before.
        assert server.http.get("/me").status_code == 401
        assert server.http.get("/me").status_code == 429
        # The flood of wrong tokens stays cheap: nobody is authenticated until it ends.
        assert server.http.get("/me", headers=server.auth_headers("aud")).status_code == 429


def test_a_limit_of_zero_counts_no_names(tmp_path: Path) -> None:
    settings = {"limit_per_name": 0, "limit_per_second": 0.1, "limit_by": "X-Real-IP"}
    with RolesServer(tmp_path, settings=settings) as server:
        headers = {"X-Real-IP": "203.0.113.7"} | server.auth_headers("ana")
        for _ in range(3):
            assert server.http.get("/me", headers=headers).status_code == 200
