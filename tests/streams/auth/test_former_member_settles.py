"""Whoever is no member any more settles what they hold, over HTTP, and does nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.streams.auth.roles_server import Body, RolesServer
from tests.streams.gateway.records import new_id, request

SESSION: Body = {
    "type": "ex_post",
    "epsilon": "0.1",
    "sensitivity": "1",
    "first": "100",
    "least": "10",
}
NOBODYS = "sha256:" + "0" * 64


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RolesServer]:
    with RolesServer(tmp_path) as made:
        made.open_for_olga("census", access="members", filter="basic")
        for name, role in (("ana", "analyst"), ("ben", "analyst"), ("eng", "engine")):
            made.enrol("census", name, role)
        yield made


def reserve(server: RolesServer, **fields: Any) -> str:
    """Begin a reservation of ana's, and return its grant."""
    more = {"claim": SESSION, "reserve": {"until": "PT30M"}, "analyst": "ana", **fields}
    sender = fields.get("via", "ana")
    body = request(server.clock, **more)
    grant: str = server.done(sender, "/requests", body, "reserved")["hash"]
    via = {"via": fields["via"]} if "via" in fields else {}
    assert step(server, sender, "begin", grant, **via).json()["outcome"] == "begun"
    return grant


def step(server: RolesServer, sender: str, kind: str, grant: str, **fields: Any) -> httpx.Response:
    body = {"version": 1, "type": kind, "analyst": "ana", "dataset": "census", "grant": grant}
    return server.send(sender, f"/datasets/census/reservations/{kind}", body | fields)


def refusal(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["detail"]


def test_a_former_member_settles_and_sends_it_again(server: RolesServer) -> None:
    grant, identity = reserve(server), new_id(server.clock)
    server.enrol("census", "ana")
    for outcome in ("settled", "repeated"):
        answer = step(server, "ana", "settle", grant, shown="40", request_id=identity)
        assert (answer.status_code, answer.json()["outcome"]) == (200, outcome)
    assert server.see("olga", "/datasets/census").json()["totals"]["epsilon"] == "0.025"


def test_a_former_engine_settles_what_it_reserved(server: RolesServer) -> None:
    grant = reserve(server, via="eng")
    for name in ("ana", "eng"):
        server.enrol("census", name)
    answer = step(server, "eng", "settle", grant, shown="40", via="eng")
    assert answer.json()["outcome"] == "settled"


@pytest.mark.parametrize("kind", ["begin", "void"])
def test_a_former_member_takes_no_other_step(server: RolesServer, kind: str) -> None:
    grant = reserve(server)
    server.enrol("census", "ana")
    before, _ = server.stored_rows()
    assert step(server, "ana", kind, grant).status_code == 403
    assert server.stored_rows()[0] == before


def test_a_stranger_gets_the_answer_about_an_unknown_dataset(server: RolesServer) -> None:
    grant = reserve(server)
    server.enrol("census", "ben")
    before, _ = server.stored_rows()
    unknown = server.send(
        "ben",
        "/datasets/zensus/reservations/settle",
        {"version": 1, "type": "settle", "analyst": "ben", "dataset": "zensus", "grant": grant},
    )
    status, detail = refusal(unknown)
    for named, sent in (
        ("another's", step(server, "ben", "settle", grant, analyst="ben")),
        ("nobody's", step(server, "ben", "settle", NOBODYS, analyst="ben")),
        ("another's, as an engine", step(server, "ben", "settle", grant, via="ben")),
    ):
        assert refusal(sent) == (status, detail.replace("zensus", "census")), named
    assert server.stored_rows()[0] == before


def test_a_former_member_gets_no_answer_about_what_is_settled(server: RolesServer) -> None:
    grant = reserve(server)
    server.enrol("census", "ana")
    assert step(server, "ana", "settle", grant).json()["outcome"] == "settled"
    before, _ = server.stored_rows()
    assert step(server, "ana", "settle", grant).status_code == 403
    assert server.stored_rows()[0] == before
