"""Guards run before a request's route and body, whichever way the request is answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from litestar import Litestar

from streams.embedded.service import EmbeddedService
from streams.gateway import direct
from streams.http.guard import Guard, guards_of
from streams.http.head_method import _Methods
from streams.http.no_store import _NoStore
from streams.pages import PAGES
from streams.server.app import create_app
from streams.settings import Settings
from tests.streams.auth.token_server import ADMINISTRATOR, TokenServer
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import request

FORWARDED = "X-Forwarded-For"
TWICE = [("X-Twice", "1"), ("X-Twice", "2")]
"""With a header sent twice Litestar answers."""
WAYS = ([], TWICE)
JSON = ("Content-Type", "application/json")


def layers_of(app: Litestar) -> list[Any]:
    """Return the middleware of an application from the outside in, without Litestar's own."""
    found, layer = [], app.asgi_handler
    while type(layer).__module__.startswith("streams."):
        found.append(layer)
        layer = layer._app  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize(
    "options",
    [{}, {"limit_by": "peer"}, {"tokens": "made", "trusted_proxy": "10.0.0.7", "limit_by": "peer"}],
    ids=str,
)
def test_a_direct_answer_skips_no_guard(tmp_path: Path, options: dict[str, Any]) -> None:
    tokens = {}
    if "tokens" in options:
        (tmp_path / "other").mkdir()
        with TokenServer(tmp_path / "other", pages=PAGES) as made:
            tokens = {"tokens": made.tokens, "token_prefix": "local:"}
    settings = Settings(port=0, **(options | tokens))
    service = EmbeddedService.open(tmp_path / "ledger.db", settings)
    try:
        app = create_app(service, settings, pages=PAGES)
    finally:
        service.close_sync()
    outermost, *layers = layers_of(app)
    assert isinstance(outermost, direct._Direct)
    guards = [each for each in layers if isinstance(each, Guard)]
    assert list(outermost._guards) == guards == list(guards_of(app))
    assert len(guards) == {0: 0, 1: 1, 3: 4}[len(options)]
    # The direct way takes the place of these: it knows what they do to its responses.
    others = [type(each) for each in layers if not isinstance(each, Guard)]
    assert others == [_Methods, _NoStore]
    assert layers == [each for each in layers if not isinstance(each, Guard)] + guards


def send(
    server: LocalServer, body: Callable[[], object], *headers: tuple[str, str]
) -> list[httpx.Response]:
    """Send a body of its own directly and by Litestar; return the two equal responses."""
    found = [
        server.http.post(
            "/requests", content=msgspec.json.encode(body()), headers=[JSON, *headers, *more]
        )
        for more in WAYS
    ]
    changing = {"date", "x-request-id", "content-length", "content-location"}
    first, second = (
        {name: value for name, value in each.headers.items() if name not in changing}
        for each in found
    )
    assert first == second
    assert first["cache-control"] == "no-store"
    assert found[0].status_code == found[1].status_code
    return found


@pytest.fixture
def tokens(tmp_path: Path) -> Iterator[TokenServer]:
    with TokenServer(tmp_path, pages=PAGES, limit_per_name=1) as server:
        yield server


@pytest.mark.parametrize("authorization", [None, "Bearer wrong", "Basic x", "Bearer a b"])
def test_without_a_valid_token_both_ways_answer_401(
    tokens: TokenServer, authorization: str | None
) -> None:
    headers = [] if authorization is None else [("Authorization", authorization)]
    before = tokens.last_sequence()
    for each in send(tokens, lambda: request(tokens.clock), *headers):
        assert each.status_code == 401
        assert each.headers["www-authenticate"] == "Bearer"
    assert tokens.last_sequence() == before


def test_another_analysts_name_gets_403_both_ways(tokens: TokenServer) -> None:
    ana = tokens.make("local:ana")
    body = {"analyst": "local:bob"}
    for each in send(
        tokens, lambda: request(tokens.clock) | body, ("Authorization", f"Bearer {ana}")
    ):
        assert each.status_code == 403
        assert each.json()["error"] == "not_permitted"


def test_a_valid_token_is_answered_both_ways(tokens: TokenServer) -> None:
    body = {"analyst": ADMINISTRATOR, "claim": {"type": "pure", "epsilon": "0.001"}}
    token = ("Authorization", f"Bearer {tokens.administrator}")
    for each in send(tokens, lambda: request(tokens.clock) | body, token):
        assert each.status_code == 200
        assert each.json()["outcome"] == "granted"


def test_one_limit_of_a_name_counts_both_ways(tokens: TokenServer) -> None:
    token = ("Authorization", f"Bearer {tokens.make('local:ana')}")
    statuses = [each.status_code for _ in range(6) for each in send_twice(tokens, token)]
    assert statuses == [403] * 10 + [429] * 2


def send_twice(server: TokenServer, token: tuple[str, str]) -> list[httpx.Response]:
    body = msgspec.json.encode(request(server.clock))
    return [
        server.http.post("/requests", content=body, headers=[JSON, token, *more]) for more in WAYS
    ]


def test_one_limit_of_an_address_counts_both_ways(tmp_path: Path) -> None:
    settings = Settings(port=0, limit_per_second=0.1, limit_by=FORWARDED)
    with LocalServer(tmp_path / "ledger.db", TestClock(), settings, pages=PAGES) as server:
        server.open()
        body = msgspec.json.encode(request(server.clock))
        address = (FORWARDED, "203.0.113.7")
        found = [
            server.http.post("/requests", content=body, headers=[JSON, address, *more])
            for more in WAYS
        ]
    assert [each.status_code for each in found] == [200, 429]


def test_behind_a_proxy_both_ways_reject_other_peers(tmp_path: Path) -> None:
    with TokenServer(tmp_path, pages=PAGES, trusted_proxy="10.0.0.7") as server:
        forged = (FORWARDED, "203.0.113.7")
        for each in send(server, lambda: request(server.clock), forged):
            assert each.status_code in {401, 403}
