"""The first decision is replayed only to the caller who sent it and may see all of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from tests.streams.auth.roles_server import RolesServer

Body = dict[str, Any]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RolesServer]:
    with RolesServer(tmp_path) as made:
        made.furnish()
        yield made


def replay(server: RolesServer, name: str, body: Body) -> httpx.Response:
    headers = {"content-type": "application/json", "prefer": "replay=original"}
    content = msgspec.json.encode({"request_id": "", **body})  # the bytes that `send` makes
    return server.http.post(
        "/requests", content=content, headers=headers | server.auth_headers(name)
    )


def test_the_sender_gets_the_first_decision(server: RolesServer) -> None:
    for name, via in (("ana", None), ("eng", "eng")):
        body = server.granted("closed-own", "ana", via=via)
        found = replay(server, name, body)
        assert (found.status_code, found.json()["outcome"]) == (200, "granted")
        assert found.headers["privacy-replayed"] == "true"


def test_nobody_gets_the_first_decision_of_another(server: RolesServer) -> None:
    for dataset in ("closed-own", "closed-all", "open-all"):
        body = server.granted(dataset, "ana")
        for name in ("ben", "zoe", "eng", "aud", "olga", "root", "otto"):
            found = replay(server, name, body)
            assert found.status_code == 403, (dataset, name)
            assert "privacy-replayed" not in found.headers


def test_an_engine_gets_no_decision_of_the_analyst_that_used_its_id(
    server: RolesServer,
) -> None:
    """The analyst's own request had the id first: a conflict, whatever the engine prefers."""
    for dataset in ("closed-own", "open-all"):
        body = server.granted(dataset, "ana")
        found = replay(server, "eng", body | {"via": "eng"})
        assert (found.status_code, found.json()["outcome"]) == (409, "conflict")
        assert "privacy-replayed" not in found.headers
        assert "totals" not in found.json()


def test_a_removed_member_gets_no_replay(server: RolesServer) -> None:
    body = server.granted("closed-own", "ana")
    server.enrol("closed-own", "ana")
    found = replay(server, "ana", body)
    assert found.status_code == 403
    assert "privacy-replayed" not in found.headers
    assert "cost" not in found.json()


def test_refusals_of_unauthenticated_callers_may_not_be_cached(server: RolesServer) -> None:
    found = server.http.get("/datasets")
    assert (found.status_code, found.headers["cache-control"]) == (401, "no-store")
