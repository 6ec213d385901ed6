"""Nothing is answered to a stranger, on any route, also on those to come."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from streams.auth.middleware import HEALTH
from streams.pages import PAGES
from streams.pages.assets import ADDRESSES
from streams.pages.paths import SIGN_IN
from streams.server.app import Pages, create_app
from tests.every_case import check_each
from tests.patience import PATIENCE_S
from tests.streams.auth.token_server import TokenServer

_VALUES = {
    "{dataset:str}": "census",
    "{request_id:str}": "x",
    "{analyst:str}": "ana",
    "{path:str}": "x",
    "{form:str}": "csv",
}
_OPEN = HEALTH | {SIGN_IN, *ADDRESSES}


@pytest.fixture(scope="session")
def pages() -> Pages:
    return PAGES


def addresses(server: TokenServer) -> list[tuple[str, str]]:
    """Return every method and path that the server has, and others."""
    found = [("GET", "/nowhere"), ("POST", "/nowhere"), ("GET", "/datasets/census/nowhere")]
    found += [
        ("GET", "//healthz"),
        ("GET", "/healthz/"),
        ("GET", "/readyz/x"),
        ("GET", "/%72eadyz/"),
    ]
    for route in create_app(server.service, server.settings, pages=PAGES).routes:
        path = route.path
        for name, value in _VALUES.items():
            path = path.replace(name, value)
        assert "{" not in path, f"give a value for a parameter of {route.path}"
        methods = {*route.methods, "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "QUERY"}
        found += [(method, path) for method in sorted(methods) if path not in _OPEN]
    return found


def test_every_route_rejects_an_unauthenticated_caller_with_401(token_server: TokenServer) -> None:
    paths = addresses(token_server)
    assert {"/events", "/", "/schema/openapi.json", "/metrics", "/me"} <= {p for _, p in paths}
    before = token_server.last_sequence()
    for method, path in paths:
        for headers in ({}, {"Authorization": "Bearer x"}, {"X-Forwarded-User": "olga"}):
            answer = token_server.http.request(method, path, headers=headers)
            assert answer.status_code == 401, (method, path)
            assert answer.headers["www-authenticate"] == "Bearer"
            assert "census" not in answer.text
    assert token_server.last_sequence() == before


def test_health_routes_show_unauthenticated_callers_only_the_state(
    token_server: TokenServer,
) -> None:
    for token in (None, "x", b"Basic x"):
        assert token_server.get("/healthz", token).json() == {"alive": True}
        ready = token_server.get("/readyz", token)
        assert (ready.status_code, ready.json()) == (200, {"ready": True})
    # Reasons may name datasets, so a token alone is not enough.
    assert token_server.get("/readyz", token_server.make("local:ana")).json() == {"ready": True}
    assert "reasons" in token_server.get("/readyz", token_server.administrator).json()
    assert token_server.http.head("/healthz").status_code == 200


def test_an_unauthenticated_caller_gets_401_before_the_body_is_read(
    token_server: TokenServer,
) -> None:
    parts = urlsplit(token_server.url)
    with socket.create_connection(
        (parts.hostname or "", parts.port or 0), timeout=PATIENCE_S
    ) as raw:
        head = (
            b"POST /requests HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Content-Length: 1000000000\r\n\r\n"
        )
        raw.sendall(head)
        assert raw.recv(4_096).startswith(b"HTTP/1.1 401 ")


HOSTILE = {
    "no value": b"Authorization:",
    "spaces": b"Authorization: Bearer    ",
    "not ASCII": b"Authorization: Bearer \xc3\xa9\xff",
    "two": b"Authorization: Bearer x\r\nAuthorization: Bearer y",
    "folded": b"Authorization: Bearer\r\n x",
    "a zero": b"Authorization: Bearer \x00",
    "ends alone": b"Authorization: Bearer x\ry",
    "long": b"Authorization: Bearer " + b"x" * 60_000,
    "many": b"\r\n".join(b"X-%d: y" % number for number in range(2_000)),
    "a host of bytes": b"X: y\r\nHost: \xff\xfe",
    "another transfer": b"Transfer-Encoding: chunked\r\nAuthorization: Bearer x",
    "an upgrade": b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x",
}


def test_hostile_headers_cause_no_server_error(token_server: TokenServer) -> None:
    def check_case(path: str, case: str) -> None:
        parts = urlsplit(token_server.url)
        address = (parts.hostname or "", parts.port or 0)
        with socket.create_connection(address, timeout=PATIENCE_S) as raw:
            head = b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n\r\n" % (
                path.encode(),
                HOSTILE[case],
            )
            raw.sendall(head)
            answered = raw.recv(4_096)
        status = int(answered.split(b" ", 2)[1])
        assert status in ({200, 400, 431} if path == "/readyz" else {400, 401, 431}), answered

    check_each(check_case, ["/me", "/readyz", "/events"], HOSTILE)


def test_an_authenticated_caller_gets_the_usual_status_codes(token_server: TokenServer) -> None:
    token = token_server.administrator
    assert token_server.status(token, "/datasets") == 200
    assert token_server.status(token, "/nowhere") == 404
    assert token_server.status(token, "/") == 200
    head = token_server.http.head("/datasets", headers={"Authorization": f"Bearer {token}"})
    assert (head.status_code, head.content) == (200, b"")


def test_only_administrators_and_metrics_readers_get_metrics(tmp_path: Path) -> None:
    with TokenServer(tmp_path, pages=PAGES, metrics_readers="local:scraper") as server:
        scraper, ana = server.make("local:scraper"), server.make("local:ana")
        for token, status in ((server.administrator, 200), (scraper, 200), (ana, 403), (None, 401)):
            assert server.status(token, "/metrics") == status
            head = {} if token is None else {"Authorization": f"Bearer {token}"}
            assert server.http.head("/metrics", headers=head).status_code == status


def test_a_setting_opens_metrics_to_everybody(tmp_path: Path) -> None:
    with TokenServer(tmp_path, pages=PAGES, metrics_readers="*") as server:
        for token in (None, "x", server.make("local:ana")):
            assert server.status(token, "/metrics") == 200
        assert server.status(None, "/me") == 401


def test_without_authentication_me_has_no_name(shared_server: TokenServer) -> None:
    me = shared_server.http.get("/me")
    assert me.json() == {
        "name": None,
        "kind": None,
        "administrator": False,
        "authentication": False,
        "datasets": [],
    }
    assert shared_server.http.get("/readyz").json() == {"ready": True, "reasons": []}
    assert shared_server.http.get("/metrics").status_code == 200
