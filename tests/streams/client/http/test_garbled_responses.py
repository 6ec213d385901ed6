"""A response that a proxy has garbled after the charge never reads as not charged."""

from __future__ import annotations

import http.client
import http.server
import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from accountant.errors import RequestInvalid
from streams.client import Accountant, AsyncAccountant, Unanswered
from tests.nightly import NIGHTLY
from tests.patience import PATIENCE_S
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer

ONE = {"filter": "basic", "epsilon": "1"}
JSON = "application/json"
PROBLEM = "application/problem+json"
Answer = tuple[int, str, bytes]
# Each is asked again on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:census was released before")

GARBLED: dict[str, Callable[[bytes], Answer]] = {
    "truncated": lambda body: (200, JSON, body[:-20]),
    "a page": lambda _: (200, "text/html", b"<html>ok</html>"),
    "null": lambda _: (200, JSON, b"null"),
    "empty": lambda _: (200, JSON, b""),
    "a list": lambda body: (200, JSON, b"[" + body + b"]"),
    "an object": lambda _: (200, JSON, b"{}"),
    "a wrong type": lambda body: (200, JSON, body.replace(b'"outcome":', b'"outcome":1,"o":')),
    "twice": lambda body: (200, JSON, body + body),
    **{
        f"status {status}": lambda body, status=status: (status, JSON, body)
        for status in (201, 204, 206, 302, 307, 400, 401, 403, 404, 413, 418, 422, 500, 501)
    },
    **{
        f"a page of {status}": lambda _, status=status: (status, "text/html", b"<h1>no</h1>")
        for status in (400, 401, 403, 404, 409, 413, 422, 500)
    },
    "a problem of another kind": lambda _: (400, PROBLEM, b'{"title":"Bad Request","status":400}'),
    "a problem of another status": lambda _: (
        403,
        PROBLEM,
        b'{"status":200,"error":"not_permitted","message":"no"}',
    ),
    "a problem of the proxy's own type": lambda _: (
        422,
        JSON,
        b'{"status":422,"error":"invalid_field","field":"claim","rule":"no","value":""}',
    ),
    "a problem with half a decision": lambda _: (
        422,
        PROBLEM,
        b'{"status":422,"error":"invalid_field","field":"claim","decision":{"outcome":"invalid"}}',
    ),
}


class Proxy:
    """Forwards every call, and garbles the answers to what is sent to be recorded.

    Attributes:
        garble: what becomes of such an answer; None for the answer itself.
        route: the path that is asked for instead of a read's.
        hidden: headers that are not passed on.
    """

    def __init__(self, upstream: str) -> None:
        self.garble: Callable[[bytes], Answer] | None = None
        self.route: Callable[[str], str] = lambda path: path
        self.hidden = frozenset[str]()
        proxy, server = self, urlsplit(upstream).netloc

        class Handler(http.server.BaseHTTPRequestHandler):
            def _forward(self) -> None:
                sent = self.rfile.read(int(self.headers.get("content-length", 0)))
                connection = http.client.HTTPConnection(server, timeout=PATIENCE_S)
                given = {
                    name: value
                    for name, value in self.headers.items()
                    if name.lower() in {"content-type", "prefer"}
                }
                reads = self.command == "GET" or self.path.endswith("/preview")
                path = proxy.route(self.path) if reads else self.path
                connection.request(self.command, path, sent, given)
                answer = connection.getresponse()
                content = answer.read()
                status, kind = answer.status, answer.getheader("content-type", "")
                place = answer.getheader("content-location")
                connection.close()
                if proxy.garble is not None and self.command == "POST":
                    status, kind, content = proxy.garble(content)
                self.send_response(status)
                self.send_header("content-type", kind)
                if place is not None and "content-location" not in proxy.hidden:
                    self.send_header("content-location", place)
                if status != 204:
                    self.send_header("content-length", str(len(content)))
                self.end_headers()
                if status != 204:
                    self.wfile.write(content)

            do_GET = do_POST = _forward  # noqa: N815 - the names that http.server calls

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def proxy(
    tmp_path: Path, file: Path, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Proxy]:
    monkeypatch.setenv("ACCOUNTANT_ANSWERS", str(tmp_path / "answers.db"))
    with LocalServer(file, clock) as server:
        with Accountant(server.url, clock=clock) as ledger:
            ledger.as_owner("owner").open("census", ONE, as_given=True)
        with Proxy(server.url) as proxy:
            yield proxy


def never() -> int:
    raise AssertionError("ran without a grant")


async def granted(ledger: AsyncAccountant) -> None:
    async with ledger.grant("census", "pure:0.0001"):
        never()


CHARGED: dict[str, Callable[[Any], Any]] = {
    "ask": lambda ledger: ledger.ask("census", "pure:0.0001"),
    "grant": lambda ledger: (
        granted(ledger)
        if isinstance(ledger, AsyncAccountant)
        else ledger.grant("census", "pure:0.0001").__enter__()
    ),
    "release": lambda ledger: ledger.release("census", "pure:0.0001", never),
}
RECORDED: dict[str, Callable[[Any], Any]] = {
    "open": lambda ledger: ledger.as_owner("owner").open("census", ONE, as_given=True),
    "amend": lambda ledger: ledger.as_owner("owner").amend("census", alert_at=["0.5"]),
    "member": lambda ledger: ledger.as_owner("owner").set_member(
        "census", "ben", roles=["analyst"]
    ),
    "limit": lambda ledger: ledger.as_owner("owner").set_limit(
        "census", "analyst", "ben", part="0.5"
    ),
    "pause": lambda ledger: ledger.as_owner("owner").pause("census"),
    "resume": lambda ledger: ledger.as_owner("owner").resume("census"),
    "close": lambda ledger: ledger.as_owner("owner").close("census"),
}
CALLS = [
    *((call, "may be charged;") for call in CHARGED.values()),
    *((call, "may be recorded;") for call in RECORDED.values()),
]


def check(error: Unanswered, says: str) -> None:
    (note,) = error.__notes__
    assert note.startswith(f"request_id {error.request_id}: {says}")


def test_a_garbled_response_is_rejected_and_the_request_may_be_charged(
    proxy: Proxy, clock: TestClock
) -> None:
    with Accountant(proxy.url, clock=clock, analyst="ana") as ledger:
        for proxy.garble in GARBLED.values():
            for call, says in CALLS:
                with pytest.raises(Unanswered) as raised:
                    call(ledger)
                check(raised.value, says)


async def test_the_async_client_rejects_a_garbled_response(proxy: Proxy, clock: TestClock) -> None:
    async with AsyncAccountant(proxy.url, clock=clock, analyst="ana") as ledger:
        every = itertools.product(GARBLED.values(), CALLS)
        in_turn = zip(GARBLED.values(), itertools.cycle(CALLS), strict=False)
        for proxy.garble, (call, says) in every if NIGHTLY else in_turn:
            with pytest.raises(Unanswered) as raised:
                await call(ledger)
            check(raised.value, says)


def test_a_request_charged_behind_a_garbled_response_is_retried_by_its_id(
    proxy: Proxy, clock: TestClock
) -> None:
    with Accountant(proxy.url, clock=clock, analyst="ana") as ledger:
        proxy.garble = GARBLED["truncated"]
        with pytest.raises(Unanswered) as raised:
            CHARGED["release"](ledger)
        proxy.garble = None
        found = raised.value.request_id
        assert ledger.release("census", "pure:0.0001", lambda: 7, request_id=found) == 7
        view = ledger.dataset("census")
        assert view is not None
        assert str(view.totals["epsilon"]) == "0.0001"


def test_the_servers_own_rejection_says_not_charged(proxy: Proxy, clock: TestClock) -> None:
    with Accountant(proxy.url, clock=clock, analyst="ana") as ledger:
        proxy.garble = lambda _: (
            422,
            PROBLEM,
            b'{"status":422,"error":"invalid_field","field":"claim","rule":"no","value":"x"}',
        )
        with pytest.raises(RequestInvalid) as raised:
            CHARGED["ask"](ledger)
        assert raised.value.__notes__[0].endswith(": not charged: the ledger rejected it")
