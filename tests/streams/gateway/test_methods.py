from __future__ import annotations

import pytest

from streams.gateway.events import MAX_STREAMS
from tests.streams.gateway.local_server import LocalServer

GET_ROUTES = [
    "/datasets",
    "/datasets?limit=0",
    "/datasets/census",
    "/datasets/nowhere",
    "/datasets/census/usage",
    "/datasets/census/why?format=csv",
    "/datasets/census/requests/none?analyst=ana",
    "/healthz",
    "/readyz",
    "/metrics",
    "/schema/openapi.json",
]


@pytest.mark.parametrize("path", GET_ROUTES)
def test_a_head_request_gets_the_headers_of_get_without_a_body(
    shared_server: LocalServer, path: str
) -> None:
    got, head = shared_server.http.get(path), shared_server.http.head(path)
    assert (head.status_code, head.content) == (got.status_code, b"")
    volatile = {"date", "x-request-id"}
    if path == "/metrics":
        volatile.add("content-length")  # metrics move on
    assert {name: head.headers[name] for name in head.headers if name not in volatile} == {
        name: got.headers[name] for name in got.headers if name not in volatile
    }


def test_every_get_route_of_the_document_answers_head(shared_server: LocalServer) -> None:
    paths = shared_server.http.get("/schema/openapi.json").json()["paths"]
    for path, item in paths.items():
        named = path.replace("{dataset}", "census").replace("{request_id}", "none")
        status = shared_server.http.head(named).status_code
        assert (status == 405) == ("get" not in item), path


def test_a_head_request_for_events_ends_and_opens_no_stream(server: LocalServer) -> None:
    for _ in range(MAX_STREAMS + 1):
        head = server.http.head("/events")
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"].startswith("text/event-stream")


def test_allow_names_every_method_of_a_path(shared_server: LocalServer) -> None:
    for path, allowed in {
        "/datasets": "GET, HEAD, OPTIONS, POST",
        "/requests": "OPTIONS, POST",
        "/datasets/census/members": "GET, HEAD, OPTIONS, POST",
        "/datasets/census": "GET, HEAD, OPTIONS",
    }.items():
        assert shared_server.http.options(path).headers["allow"] == allowed
        wrong = shared_server.http.delete(path)
        assert (wrong.status_code, wrong.headers["allow"]) == (405, allowed)
        assert f"this path takes {allowed.replace('HEAD, ', '')}" in wrong.json()["message"]
    assert shared_server.http.head("/requests").status_code == 405


def test_a_misspelt_path_names_the_one_that_is_there(shared_server: LocalServer) -> None:
    for path, hint in (
        ("/dataset/web", "did you mean /datasets/web?"),
        ("/ui", "see /schema/openapi.json"),
    ):
        answer = shared_server.http.get(path)
        assert answer.status_code == 404
        assert answer.json()["message"] == f"this server has no such path; {hint}"
